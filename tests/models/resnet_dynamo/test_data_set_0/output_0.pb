
BlinearJPÀiŒ=rTC¿ëé>R*e¾Jlô½Þja>0ØÜ=¹Xï<cÄÛ>à6U>ŒM=ÊT¿<÷?ëÏ‰¾r•¾p>„>vH>óe=¨þ>&¼q>