Bx2J
