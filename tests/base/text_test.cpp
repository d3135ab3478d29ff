// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

template <class T>
struct OddlyNamed {
  struct Inner {};
};

TEST(ClassNameOf, IsWithoutNamespacesAndTemplateArguments) {
  EXPECT_EQ(class_name_of(typeid(std::string_view)), "basic_string_view");
  EXPECT_EQ(class_name_of(typeid(OddlyNamed<OddlyNamed<int>>)), "OddlyNamed");
  EXPECT_EQ(class_name_of(typeid(OddlyNamed<int>::Inner)), "Inner");
}

TEST(Printable, KeepsCharactersAndReplacesTheOtherBytes) {
  EXPECT_EQ(printable("a\tb\n\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "a\tb\n\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable(std::string_view("\x1b[2J\0\x7f", 6)), "?[2J??");
  EXPECT_EQ(printable("\xc3 \xe2\x82"), "? ??") << "incomplete characters";
  EXPECT_EQ(printable("\xf9\x80\x80\x80 \xff\xbf\xbf\xbf"), "???? ????") << "bytes that begin no character";
  EXPECT_EQ(printable("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf"), "?? ??? ????") << "longer than necessary";
  EXPECT_EQ(printable("\xed\xa0\x80 \xf4\x90\x80\x80"), "??? ????") << "a surrogate, and above U+10FFFF";
}

TEST(EscapeControls, KeepsCharactersAndWritesTheOtherBytesAsEscapes) {
  EXPECT_EQ(escape_controls("a.weight \xc3\xa9 \xf0\x9f\x98\x80"), "a.weight \xc3\xa9 \xf0\x9f\x98\x80");
  EXPECT_EQ(escape_controls(std::string_view("\x1b[2J\0\x7f", 6)), "\\x1b[2J\\x00\\x7f");
  EXPECT_EQ(escape_controls("a\tb\nc\r"), "a\\tb\\nc\\x0d");
  EXPECT_EQ(escape_controls("\xc2\x9b \xff"), "\\xc2\\x9b \\xff") << "U+009B also begins a command of terminals";
}

TEST(Utf8, AllowsControlCharactersAndNothingElseThanCharacters) {
  EXPECT_TRUE(is_utf8("a\x01\n \xc3\xa9 \xf0\x9f\x98\x80"));
  EXPECT_TRUE(is_utf8(""));
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf"}) EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace tessera
