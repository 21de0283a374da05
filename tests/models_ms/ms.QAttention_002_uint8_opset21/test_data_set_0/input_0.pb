Bx0J
N$+O1LQ