Bx0JlE1;3T(
*=*@GNa!?9[EP!&PEP.6I@?UA O1I*B]):"JGP!0JJ4/Y;SBH,C#
H!XICM,JD_$)*-'C0]X*