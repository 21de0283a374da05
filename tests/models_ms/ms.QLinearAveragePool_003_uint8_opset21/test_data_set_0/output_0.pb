By0J
a]dZc_Un^o