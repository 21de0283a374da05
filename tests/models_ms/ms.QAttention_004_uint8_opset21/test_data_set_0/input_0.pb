Bx0J XE6.TJRO/8;aY'VEcc
QT[