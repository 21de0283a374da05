Bx1J
