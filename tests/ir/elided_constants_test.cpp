// SPDX-License-Identifier: Apache-2.0
// Constants whose elements the text elides, `{...}`, are a separate state that printing, comparison and hashing
// preserve.
#include <gtest/gtest.h>

#include <functional>

#include "ir/round_trip.h"
#include "tessera/ir/text.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

const Literal& value_of(const Program& program, std::string_view name) {
  return attributes_as<ConstantAttributes>(named(program, name).attributes).value;
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// One constant of each kind, and one in a called computation.
constexpr const char* kModule = R"(HloModule m
%scaled (x: f32[20]) -> f32[20] {
  %x = f32[20] parameter(0)
  %c = f32[20] constant({...})
  ROOT %y = f32[20] multiply(%x, %c)
}
ENTRY %main (x: f32[20]) -> (f32[20], f32[20], (bf16[3,4], s32[5], c64[2]), f8e4m3fn[2,8], pred[30], u4[], f32[0,5]) {
  %x = f32[20] parameter(0)
  %c = f32[20] constant({...})
  %both = (bf16[3,4], s32[5], c64[2]) constant(({...}, {1, 2, 3, 4, 5}, {...}))
  %narrow = f8e4m3fn[2,8] constant({...})
  %mask = pred[30] constant({...})
  %scalar = u4[] constant({...})
  %none = f32[0,5] constant({...})
  %y = f32[20] add(%x, %c)
  %z = f32[20] call(%x), to_apply=%scaled
  ROOT %out = (f32[20], f32[20], (bf16[3,4], s32[5], c64[2]), f8e4m3fn[2,8], pred[30], u4[], f32[0,5]) tuple(%y, %z, %both, %narrow, %mask, %scalar, %none)
})";

TEST(ElidedConstants, TextKeepsThem) {
  const Program program = round_trip(kModule);
  EXPECT_EQ(elided_constants(program),
            (std::vector<std::string>{"%c of %scaled", "%c of %main", "%both of %main", "%narrow of %main",
                                      "%mask of %main", "%scalar of %main"}));
  const std::string text = print_program(program);
  EXPECT_TRUE(has(text, "%both = (bf16[3,4]{1,0}, s32[5]{0}, c64[2]{0}) constant(({...}, {1,2,3,4,5}, {...}))"))
      << text;
  EXPECT_FALSE(has(text, kElidedKey)) << text;
}

TEST(ElidedConstants, ACompleteTupleMayBeElided) {  // as XLA prints it
  const Program program = round_trip("ENTRY e { ROOT c = (f32[12], (s32[3], f32[0])) constant({...}) }");
  EXPECT_EQ(value_of(program, "c").origins(), (std::vector<std::string>{"e/c:0", "e/c:1", ""}));
  EXPECT_TRUE(has(print_program(program), "constant(({...}, ({...}, {})))")) << print_program(program);
}

TEST(ElidedConstants, AreDifferentValuesUnlessTheyAreCopies) {
  const Program program = round_trip(R"(ENTRY e {
  a = f32[3] constant({...})
  b = f32[3] constant({...})
  again = f32[3] constant({...}), frontend_attributes={tessera.elided="e/a"}
  zeros = f32[3] constant({0, 0, 0})
  ROOT t = (f32[3], f32[3], f32[3], f32[3]) tuple(a, b, again, zeros) })");
  EXPECT_FALSE(value_of(program, "a") == value_of(program, "b"));
  EXPECT_NE(value_of(program, "a").hash(), value_of(program, "b").hash());
  EXPECT_FALSE(value_of(program, "a") == value_of(program, "zeros"));
  EXPECT_TRUE(value_of(program, "a") == value_of(program, "again"));
  EXPECT_EQ(value_of(program, "a").hash(), value_of(program, "again").hash());
  EXPECT_FALSE(value_of(program, "a") == Literal::elided(Type::array(DType::kF32, {1, 3}), "e/a"));
  EXPECT_TRUE(has(print_program(program), R"(tessera.elided="e/a")"));
  EXPECT_FALSE(has(print_program(program, {.for_xla = true}), "tessera.elided"));
}

TEST(ElidedConstants, HashesOfProgramsDiffer) {
  const auto hash_of = [](const char* value) {
    return read(fmt::format("ENTRY e {{ ROOT c = s32[2] constant({}) }}", value)).hash();
  };
  EXPECT_NE(hash_of("{...}"), hash_of("{0, 0}"));
  EXPECT_EQ(hash_of("{...}"), hash_of("{...}"));
}

TEST(ElidedConstants, ElementsCannotBeRead) {
  Literal value = value_of(read("ENTRY e { ROOT c = f32[30] constant({...}) }"), "c");
  for (const auto& use : {std::function<void()>([&] { (void)value.bytes(); }),
                          std::function<void()>([&] { (void)value.mutable_bytes(); }),
                          std::function<void()>([&] { (void)element_as_double(value, 0); })}) {
    try {
      use();
      ADD_FAILURE() << "elements were read";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "the elements of constant e/c f32[30] are not known: its text elides them, {...}");
    }
  }
}

TEST(ElidedConstants, MismatchedOriginsAreAnError) {
  const auto text = [](const char* type, const char* value, const char* origins) {
    return fmt::format("ENTRY e {{ ROOT c = {} constant({}), frontend_attributes={{tessera.elided=\"{}\"}} }}", type,
                       value, origins);
  };
  EXPECT_EQ(error_of(text("f32[3]", "{...}", "m/x")), "");
  EXPECT_EQ(error_of(text("(f32[3], f32[1])", "({...}, {5})", "m/x,")), "");
  EXPECT_TRUE(has(error_of(text("f32[3]", "{...}", "m/x,m/y")), "does not match the elided leaves of f32[3]"));
  EXPECT_TRUE(has(error_of(text("(f32[3], f32[1])", "({...}, {5})", ",m/x")), "does not match the elided leaves"));
  // A user has restored the values.
  EXPECT_FALSE(has(print_program(read(text("f32[3]", "{1, 2, 3}", "m/x"))), "tessera.elided"));
}

TEST(ElidedConstants, CanBeReplacedByValues) {
  std::vector<std::string> asked;
  const Program program = with_elided_constants(read(kModule), [&](const Type& type, const std::string& origin) {
    asked.push_back(origin);
    return Literal(type);
  });
  EXPECT_EQ(asked, (std::vector<std::string>{"scaled/c", "main/c", "main/both:0", "main/both:2", "main/narrow",
                                             "main/mask", "main/scalar"}));
  EXPECT_FALSE(has_elided_constants(program));
  verify(program);
}

}  // namespace
}  // namespace tessera
