// What is too long for instructions in line, in LLVM's own language. Kernels call no library, so these stand in the same
// object, once, where they are used.
#pragma once

namespace xyntra::cpu_code {

// fma, for machines without: the exact product in 128 bits with 20 to spare, the addend brought to the same scale; what
// falls off on the right is remembered in the last bit, where it decides ties and nothing else. Then one rounding.
inline constexpr char kHelpers[] = R"(
define double @fma_f64(double %x, double %y, double %z) nounwind {
entry:
  %xb = bitcast double %x to i64
  %xu = and i64 %xb, 9223372036854775807
  %xf = lshr i64 %xu, 52
  %xsub = icmp eq i64 %xf, 0
  %xlz = call i64 @llvm.ctlz.i64(i64 %xu, i1 false)
  %xsh = sub i64 %xlz, 11
  %xms = shl i64 %xu, %xsh
  %xes = sub i64 1, %xsh
  %xfr = and i64 %xu, 4503599627370495
  %xmn = or i64 %xfr, 4503599627370496
  %xm = select i1 %xsub, i64 %xms, i64 %xmn
  %xef = select i1 %xsub, i64 %xes, i64 %xf
  %xe = sub i64 %xef, 1075
  %yb = bitcast double %y to i64
  %yu = and i64 %yb, 9223372036854775807
  %yf = lshr i64 %yu, 52
  %ysub = icmp eq i64 %yf, 0
  %ylz = call i64 @llvm.ctlz.i64(i64 %yu, i1 false)
  %ysh = sub i64 %ylz, 11
  %yms = shl i64 %yu, %ysh
  %yes = sub i64 1, %ysh
  %yfr = and i64 %yu, 4503599627370495
  %ymn = or i64 %yfr, 4503599627370496
  %ym = select i1 %ysub, i64 %yms, i64 %ymn
  %yef = select i1 %ysub, i64 %yes, i64 %yf
  %ye = sub i64 %yef, 1075
  %zb = bitcast double %z to i64
  %zu = and i64 %zb, 9223372036854775807
  %zf = lshr i64 %zu, 52
  %zsub = icmp eq i64 %zf, 0
  %zlz = call i64 @llvm.ctlz.i64(i64 %zu, i1 false)
  %zsh = sub i64 %zlz, 11
  %zms = shl i64 %zu, %zsh
  %zes = sub i64 1, %zsh
  %zfr = and i64 %zu, 4503599627370495
  %zmn = or i64 %zfr, 4503599627370496
  %zm = select i1 %zsub, i64 %zms, i64 %zmn
  %zef = select i1 %zsub, i64 %zes, i64 %zf
  %ze = sub i64 %zef, 1075
  %xzero = icmp eq i64 %xu, 0
  %yzero = icmp eq i64 %yu, 0
  %zzero = icmp eq i64 %zu, 0
  %xbad = icmp eq i64 %xf, 2047
  %ybad = icmp eq i64 %yf, 2047
  %zbad = icmp eq i64 %zf, 2047
  %s0 = or i1 %xzero, %yzero
  %s1 = or i1 %xbad, %ybad
  %s2 = or i1 %s0, %s1
  %special = or i1 %s2, %zbad
  br i1 %special, label %plain, label %finite
plain:
  %product0 = fmul double %x, %y
  %sum0 = fadd double %product0, %z
  ret double %sum0
finite:
  br i1 %zzero, label %alone, label %general
alone:
  %product1 = fmul double %x, %y
  ret double %product1
general:
  %xw = zext i64 %xm to i128
  %yw = zext i64 %ym to i128
  %zw = zext i64 %zm to i128
  %pw = mul i128 %xw, %yw
  %p0 = shl i128 %pw, 20
  %exy = add i64 %xe, %ye
  %ep = sub i64 %exy, 20
  %d = sub i64 %ze, %ep
  %above = icmp sgt i64 %d, 73
  %below = icmp slt i64 %d, 0
  %d0 = select i1 %above, i64 73, i64 %d
  %zl = select i1 %below, i64 0, i64 %d0
  %zr0 = sub i64 0, %d
  %zr1 = select i1 %below, i64 %zr0, i64 0
  %zr = call i64 @llvm.umin.i64(i64 %zr1, i64 127)
  %pr0 = sub i64 %d, 73
  %pr1 = select i1 %above, i64 %pr0, i64 0
  %pr = call i64 @llvm.umin.i64(i64 %pr1, i64 127)
  %zlw = zext i64 %zl to i128
  %zrw = zext i64 %zr to i128
  %prw = zext i64 %pr to i128
  %z1 = shl i128 %zw, %zlw
  %z2 = lshr i128 %z1, %zrw
  %z3 = shl i128 %z2, %zrw
  %zlost = icmp ne i128 %z3, %z1
  %zj = zext i1 %zlost to i128
  %zv = or i128 %z2, %zj
  %p1 = lshr i128 %p0, %prw
  %p2 = shl i128 %p1, %prw
  %plost = icmp ne i128 %p2, %p0
  %pj = zext i1 %plost to i128
  %pv = or i128 %p1, %pj
  %e = add i64 %ep, %pr1
  %xys = xor i64 %xb, %yb
  %psign = icmp slt i64 %xys, 0
  %zsign = icmp slt i64 %zb, 0
  %differ = xor i1 %psign, %zsign
  %psmaller = icmp ult i128 %pv, %zv
  %added = add i128 %pv, %zv
  %pz = sub i128 %pv, %zv
  %zp = sub i128 %zv, %pv
  %apart = select i1 %psmaller, i128 %zp, i128 %pz
  %s = select i1 %differ, i128 %apart, i128 %added
  %rsign = select i1 %psmaller, i1 %zsign, i1 %psign
  %nothing = icmp eq i128 %s, 0
  br i1 %nothing, label %zero, label %round
zero:
  ret double 0.0
round:
  %slz = call i128 @llvm.ctlz.i128(i128 %s, i1 true)
  %slz64 = trunc i128 %slz to i64
  %top = sub i64 127, %slz64
  %ve = add i64 %e, %top
  %normal = icmp sge i64 %ve, -1022
  %less = add i64 %ve, 1075
  %kept = select i1 %normal, i64 53, i64 %less
  %top1 = add i64 %top, 1
  %drop = sub i64 %top1, %kept
  %right0 = call i64 @llvm.smax.i64(i64 %drop, i64 0)
  %right = call i64 @llvm.smin.i64(i64 %right0, i64 127)
  %left0 = sub i64 0, %drop
  %left = call i64 @llvm.smax.i64(i64 %left0, i64 0)
  %rightw = zext i64 %right to i128
  %leftw = zext i64 %left to i128
  %moved = shl i128 %s, %leftw
  %q = lshr i128 %moved, %rightw
  %back = shl i128 %q, %rightw
  %rest = sub i128 %moved, %back
  %unit = shl i128 1, %rightw
  %half = lshr i128 %unit, 1
  %more = icmp ugt i128 %rest, %half
  %drops = icmp ne i64 %right, 0
  %tie0 = icmp eq i128 %rest, %half
  %tie1 = and i1 %tie0, %drops
  %oddbit = trunc i128 %q to i1
  %tie = and i1 %tie1, %oddbit
  %up = or i1 %more, %tie
  %q64 = trunc i128 %q to i64
  %up64 = zext i1 %up to i64
  %rounded = add i64 %q64, %up64
  %field0 = add i64 %ve, 1022
  %field1 = shl i64 %field0, 52
  %field = select i1 %normal, i64 %field1, i64 0
  %bits0 = add i64 %field, %rounded
  %large = icmp sgt i64 %ve, 1023
  %over0 = icmp ugt i64 %bits0, 9218868437227405312
  %over = or i1 %large, %over0
  %bits1 = select i1 %over, i64 9218868437227405312, i64 %bits0
  %signbit = select i1 %rsign, i64 -9223372036854775808, i64 0
  %bits = or i64 %bits1, %signbit
  %result = bitcast i64 %bits to double
  ret double %result
}
declare i64 @llvm.ctlz.i64(i64, i1)
declare i128 @llvm.ctlz.i128(i128, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
)";

}  // namespace xyntra::cpu_code
