Bx0JAF8
QP4U$LT=\