
Bx8JRBTE©ÇŸ¶BDØ?~D