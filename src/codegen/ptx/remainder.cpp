// fmod: the remainder of the division towards zero, exact. Both mantissas are brought to one scale and the divisor is taken away bit by bit, from
// the difference of their exponents down.
#include <map>

#include "codegen/ptx/arithmetic.h"

namespace xyntra::ptx {
namespace {

constexpr std::string_view kRemainder =
    R"(.func (.param .b<W> result) fmod_f<W>(.param .b<W> left, .param .b<W> right) {
  .reg .b<W> %x, %y, %m, %n, %sign;
  .reg .b32 %e, %f, %k;
  .reg .pred %p, %q;
  ld.param.b<W> %x, [left];
  ld.param.b<W> %y, [right];
  and.b<W> %sign, %x, <sign>;
  and.b<W> %m, %x, <magnitude>;
  and.b<W> %n, %y, <magnitude>;
  setp.eq.u<W> %p, %n, 0;
  setp.gt.u<W> %q, %n, <infinity>;
  or.pred %p, %p, %q;
  setp.ge.u<W> %q, %m, <infinity>;
  or.pred %p, %p, %q;
  @%p mov.b<W> %x, <nan>;
  @%p bra $done;
  setp.lt.u<W> %p, %m, %n;
  @%p bra $done;
  shr.u<W> %x, %m, <fraction>;
  cvt.u32.u<W> %e, %x;
  setp.ne.s32 %p, %e, 0;
  @%p bra $left_normal;
  clz.b<W> %k, %m;
  sub.s32 %k, %k, <lead>;
  shl.b<W> %m, %m, %k;
  sub.s32 %e, 1, %k;
  bra $left_done;
$left_normal:
  and.b<W> %m, %m, <mask>;
  or.b<W> %m, %m, <hidden>;
$left_done:
  shr.u<W> %x, %n, <fraction>;
  cvt.u32.u<W> %f, %x;
  setp.ne.s32 %p, %f, 0;
  @%p bra $right_normal;
  clz.b<W> %k, %n;
  sub.s32 %k, %k, <lead>;
  shl.b<W> %n, %n, %k;
  sub.s32 %f, 1, %k;
  bra $next;
$right_normal:
  and.b<W> %n, %n, <mask>;
  or.b<W> %n, %n, <hidden>;
$next:
  setp.ge.u<W> %p, %m, %n;
  @%p sub.u<W> %m, %m, %n;
  setp.le.s32 %p, %e, %f;
  @%p bra $end;
  shl.b<W> %m, %m, 1;
  sub.s32 %e, %e, 1;
  bra $next;
$end:
  mov.b<W> %x, %sign;
  setp.eq.u<W> %p, %m, 0;
  @%p bra $done;
  clz.b<W> %k, %m;
  sub.s32 %k, %k, <lead>;
  shl.b<W> %m, %m, %k;
  sub.s32 %f, %f, %k;
  setp.gt.s32 %p, %f, 0;
  @%p bra $normal;
  sub.s32 %k, 1, %f;
  shr.u<W> %m, %m, %k;
  or.b<W> %x, %m, %sign;
  bra $done;
$normal:
  and.b<W> %m, %m, <mask>;
  cvt.u<W>.u32 %y, %f;
  shl.b<W> %y, %y, <fraction>;
  or.b<W> %m, %m, %y;
  or.b<W> %x, %m, %sign;
$done:
  st.param.b<W> [result], %x;
  ret;
}
)";

}  // namespace

std::string remainder_function(DType dtype) {
  using Numbers = std::map<std::string, std::string>;
  const Numbers numbers = dtype == DType::F64 ? Numbers{{"W", "64"},
                                                        {"sign", "0x8000000000000000"},
                                                        {"magnitude", "0x7FFFFFFFFFFFFFFF"},
                                                        {"infinity", "0x7FF0000000000000"},
                                                        {"nan", "0x7FF8000000000000"},
                                                        {"fraction", "52"},
                                                        {"lead", "11"},
                                                        {"mask", "0xFFFFFFFFFFFFF"},
                                                        {"hidden", "0x10000000000000"}}
                                              : Numbers{{"W", "32"},
                                                        {"sign", "0x80000000"},
                                                        {"magnitude", "0x7FFFFFFF"},
                                                        {"infinity", "0x7F800000"},
                                                        {"nan", "0x7FC00000"},
                                                        {"fraction", "23"},
                                                        {"lead", "8"},
                                                        {"mask", "0x7FFFFF"},
                                                        {"hidden", "0x800000"}};
  std::string text;
  for (std::size_t at = 0; at < kRemainder.size();) {
    const std::size_t open = kRemainder.find('<', at);
    text += kRemainder.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const std::size_t close = kRemainder.find('>', open);
    text += numbers.at(std::string(kRemainder.substr(open + 1, close - open - 1)));
    at = close + 1;
  }
  return text;
}

}  // namespace xyntra::ptx
