#include <gtest/gtest.h>

#include "support/files/inflate.h"

namespace xyntra {
namespace {

using namespace std::string_literals;

std::string unpacked(const std::string& packed, std::size_t size) {
  const auto result = inflate(std::as_bytes(std::span(packed)), size);
  return result ? *result : "error: " + result.error().message;
}

const std::string kDamaged = "error: its compressed bytes are damaged";
// Made by zlib: a stored block, one with the fixed code, one with a code of its own.
const std::string kStored = "\001\005\000\372\377\150\145\154\154\157"s;
const std::string kFixed = "\113\114\204\201\044\205\214\324\234\234\174\010\011\000"s;
const std::string kDynamic =
    "\145\223\061\152\304\100\014\105\373\234\302\145\002\046\370\113\063\322\250\330\263\054\113\266\330\042\220\020\302\236\077\322\070\236\001\031\134\270\170\310\137\377\311\317\353\266\134\226\337\257\237\217\307\373\355\176\177\175\136\267\165\361\347\366\371\375\270\135\266\267\227\347\025\011\050\130\027\306\201\040\020\112\110\243\165\001\225\203\151\301\160\142\310\031\122\073\030\322\200\112\202\204\327\245\230\034\220\224\200\152\202\234\121\255\043\020\325\200\044\247\366\064\000\306\050\202\004\246\071\271\317\101\305\210\305\205\003\153\071\174\140\326\306\206\025\024\230\345\370\376\071\252\030\145\051\131\157\064\167\056\321\350\066\152\367\327\275\371\123\365\352\240\326\131\076\163\357\037\047\001\315\173\053\062\362\101\251\113\300\311\202\203\225\170\152\200\165\021\070\231\160\104\066\235\375\151\351\062\220\155\004\147\123\007\173\336\316\145\041\325\327\125\343\061\260\154\326\215\040\053\061\137\267\131\035\021\213\241\073\101\226\022\107\351\325\225\151\245\161\327\202\354\105\251\037\203\215\042\245\325\156\206\262\031\354\227\074\335\264\177\067\224\335\124\077\103\260\350\230\151\044\373\317\221\345\130\234\142\365\240\323\267\224\256\207\262\036\016\124\330\154\136\067\304\005\375\001"s;
const std::string kDynamicText = [] {
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += "v_" + std::to_string(i) + " = torch.add(v_" + std::to_string(i * 7919 % 101) + ", " +
            std::to_string(i * i * 31) + ", alpha=" + std::to_string(i * i * i) + ")\n";
  return text;
}();

TEST(Inflate, UnpacksEveryKindOfBlock) {
  EXPECT_EQ(unpacked(kStored, 5), "hello");
  EXPECT_EQ(unpacked(kFixed, 23), "aaaaaaaaaab hello hello");
  EXPECT_EQ(unpacked(kDynamic, kDynamicText.size()), kDynamicText);
}

TEST(Inflate, RefusesWhatIsDamaged) {
  EXPECT_EQ(unpacked("", 0), kDamaged);
  EXPECT_EQ(unpacked("\x07"s, 0), kDamaged);  // no such kind of block
  EXPECT_EQ(unpacked("\x01\x01\0\0\0a"s, 1), kDamaged);  // a stored length that its complement contradicts
  EXPECT_EQ(unpacked(kStored, 4), kDamaged);
  EXPECT_EQ(unpacked(kStored, 6), kDamaged);
  EXPECT_EQ(unpacked(kStored + "x", 5), kDamaged);
  for (const std::string& whole : {kFixed, kDynamic}) {
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_EQ(unpacked(whole.substr(0, size), 1000), kDamaged);
  }
  // Whatever bit is flipped: an error or other bytes, but an end.
  for (std::size_t bit = 0; bit < 8 * kDynamic.size(); ++bit) {
    std::string flipped = kDynamic;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    static_cast<void>(unpacked(flipped, kDynamicText.size()));
  }
}

}  // namespace
}  // namespace xyntra
