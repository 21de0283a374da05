// What is too long for instructions in line, in LLVM's own language. Kernels call no library, so these stand in the same
// object, once, where they are used.
#pragma once

namespace xyntra::cpu_code {

// fmod: the remainder of the division towards zero, exact. Both mantissas are brought to one scale and the divisor is
// taken away bit by bit, from the difference of their exponents down.
inline constexpr char kHelpers[] = R"(
define internal float @fmod_f32(float %x, float %y) nounwind {
entry:
  %bx = bitcast float %x to i32
  %by = bitcast float %y to i32
  %sign = and i32 %bx, -2147483648
  %ux = and i32 %bx, 2147483647
  %uy = and i32 %by, 2147483647
  %yzero = icmp eq i32 %uy, 0
  %ynan = icmp ugt i32 %uy, 2139095040
  %xbad = icmp uge i32 %ux, 2139095040
  %ybad = or i1 %yzero, %ynan
  %isbad = or i1 %ybad, %xbad
  br i1 %isbad, label %bad, label %good
bad:
  %product = fmul float %x, %y
  %nan = fdiv float %product, %product
  ret float %nan
good:
  %less = icmp ult i32 %ux, %uy
  br i1 %less, label %same, label %prepare
same:
  ret float %x
prepare:
  %exf = lshr i32 %ux, 23
  %xsub = icmp eq i32 %exf, 0
  %xlz = call i32 @llvm.ctlz.i32(i32 %ux, i1 false)
  %xsh = sub i32 %xlz, 8
  %xms = shl i32 %ux, %xsh
  %xes = sub i32 1, %xsh
  %xfr = and i32 %ux, 8388607
  %xmn = or i32 %xfr, 8388608
  %mx = select i1 %xsub, i32 %xms, i32 %xmn
  %ex = select i1 %xsub, i32 %xes, i32 %exf
  %eyf = lshr i32 %uy, 23
  %ysub = icmp eq i32 %eyf, 0
  %ylz = call i32 @llvm.ctlz.i32(i32 %uy, i1 false)
  %ysh = sub i32 %ylz, 8
  %yms = shl i32 %uy, %ysh
  %yes = sub i32 1, %ysh
  %yfr = and i32 %uy, 8388607
  %ymn = or i32 %yfr, 8388608
  %my = select i1 %ysub, i32 %yms, i32 %ymn
  %ey = select i1 %ysub, i32 %yes, i32 %eyf
  br label %head
head:
  %m = phi i32 [ %mx, %prepare ], [ %m2, %turn ]
  %e = phi i32 [ %ex, %prepare ], [ %e2, %turn ]
  %d = sub i32 %m, %my
  %fits = icmp uge i32 %m, %my
  %r = select i1 %fits, i32 %d, i32 %m
  %more = icmp sgt i32 %e, %ey
  br i1 %more, label %turn, label %done
turn:
  %m2 = shl i32 %r, 1
  %e2 = sub i32 %e, 1
  br label %head
done:
  %iszero = icmp eq i32 %r, 0
  br i1 %iszero, label %zero, label %pack
zero:
  %signedzero = bitcast i32 %sign to float
  ret float %signedzero
pack:
  %lz = call i32 @llvm.ctlz.i32(i32 %r, i1 false)
  %sh = sub i32 %lz, 8
  %norm = shl i32 %r, %sh
  %en = sub i32 %ey, %sh
  %isnormal = icmp sgt i32 %en, 0
  %rest = sub i32 %norm, 8388608
  %field = shl i32 %en, 23
  %normal = or i32 %rest, %field
  %below = sub i32 1, %en
  %subnormal = lshr i32 %norm, %below
  %magnitude = select i1 %isnormal, i32 %normal, i32 %subnormal
  %bits = or i32 %magnitude, %sign
  %result = bitcast i32 %bits to float
  ret float %result
}
declare i32 @llvm.ctlz.i32(i32, i1)
define internal double @fmod_f64(double %x, double %y) nounwind {
entry:
  %bx = bitcast double %x to i64
  %by = bitcast double %y to i64
  %sign = and i64 %bx, -9223372036854775808
  %ux = and i64 %bx, 9223372036854775807
  %uy = and i64 %by, 9223372036854775807
  %yzero = icmp eq i64 %uy, 0
  %ynan = icmp ugt i64 %uy, 9218868437227405312
  %xbad = icmp uge i64 %ux, 9218868437227405312
  %ybad = or i1 %yzero, %ynan
  %isbad = or i1 %ybad, %xbad
  br i1 %isbad, label %bad, label %good
bad:
  %product = fmul double %x, %y
  %nan = fdiv double %product, %product
  ret double %nan
good:
  %less = icmp ult i64 %ux, %uy
  br i1 %less, label %same, label %prepare
same:
  ret double %x
prepare:
  %exf = lshr i64 %ux, 52
  %xsub = icmp eq i64 %exf, 0
  %xlz = call i64 @llvm.ctlz.i64(i64 %ux, i1 false)
  %xsh = sub i64 %xlz, 11
  %xms = shl i64 %ux, %xsh
  %xes = sub i64 1, %xsh
  %xfr = and i64 %ux, 4503599627370495
  %xmn = or i64 %xfr, 4503599627370496
  %mx = select i1 %xsub, i64 %xms, i64 %xmn
  %ex = select i1 %xsub, i64 %xes, i64 %exf
  %eyf = lshr i64 %uy, 52
  %ysub = icmp eq i64 %eyf, 0
  %ylz = call i64 @llvm.ctlz.i64(i64 %uy, i1 false)
  %ysh = sub i64 %ylz, 11
  %yms = shl i64 %uy, %ysh
  %yes = sub i64 1, %ysh
  %yfr = and i64 %uy, 4503599627370495
  %ymn = or i64 %yfr, 4503599627370496
  %my = select i1 %ysub, i64 %yms, i64 %ymn
  %ey = select i1 %ysub, i64 %yes, i64 %eyf
  br label %head
head:
  %m = phi i64 [ %mx, %prepare ], [ %m2, %turn ]
  %e = phi i64 [ %ex, %prepare ], [ %e2, %turn ]
  %d = sub i64 %m, %my
  %fits = icmp uge i64 %m, %my
  %r = select i1 %fits, i64 %d, i64 %m
  %more = icmp sgt i64 %e, %ey
  br i1 %more, label %turn, label %done
turn:
  %m2 = shl i64 %r, 1
  %e2 = sub i64 %e, 1
  br label %head
done:
  %iszero = icmp eq i64 %r, 0
  br i1 %iszero, label %zero, label %pack
zero:
  %signedzero = bitcast i64 %sign to double
  ret double %signedzero
pack:
  %lz = call i64 @llvm.ctlz.i64(i64 %r, i1 false)
  %sh = sub i64 %lz, 11
  %norm = shl i64 %r, %sh
  %en = sub i64 %ey, %sh
  %isnormal = icmp sgt i64 %en, 0
  %rest = sub i64 %norm, 4503599627370496
  %field = shl i64 %en, 52
  %normal = or i64 %rest, %field
  %below = sub i64 1, %en
  %subnormal = lshr i64 %norm, %below
  %magnitude = select i1 %isnormal, i64 %normal, i64 %subnormal
  %bits = or i64 %magnitude, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
declare i64 @llvm.ctlz.i64(i64, i1)
)";

}  // namespace xyntra::cpu_code
