Bx0J P S!7):/8SQOX
7c&AD3LbZ_D8