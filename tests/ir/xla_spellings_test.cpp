// SPDX-License-Identifier: Apache-2.0
// Forms that XLA's reader accepts and that current and earlier versions of XLA print: they are read, preserved and
// printed again.
#include <gtest/gtest.h>

#include <cmath>

#include "round_trip.h"
#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/async.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

std::string refusal_of(std::string_view text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns a module with `ROOT r = …` in an entry computation with one f32[2,3] parameter x.
std::string module(std::string_view body) {
  return "HloModule m\nENTRY e {\n  x = f32[2,3] parameter(0)\n" + std::string(body) + "\n}\n";
}

std::string for_xla(std::string_view text) { return print_program(read(text), {.for_xla = true}); }

TEST(XlaSpellings, TablesOfSourceLinesAfterTheHeaderGiveFileAndLine) {
  const Program program = round_trip(R"(HloModule jit_f, is_scheduled=true

FileNames
1 "/tmp/train.py"
2 "lib.py"

FunctionNames
1 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=33 end_line=33 column=6 end_column=6}
2 {file_name_id=2 function_name_id=1 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}


ENTRY %e (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0), metadata={op_name="x"}
  ROOT %y = f32[2]{0} negate(%x), metadata={op_name="jit(f)/neg" stack_frame_id=2}
}
)");
  EXPECT_EQ(named(program, "y").source(), "lib.py:7");
  EXPECT_EQ(named(program, "x").source(), "");
}

TEST(XlaSpellings, ComplexLiteralsKeepBothParts) {
  const Program program = round_trip(module("  ROOT c = c64[3] constant({(1, -2.5), (inf, nan), 4})"));
  const auto& value = attributes_as<ConstantAttributes>(named(program, "c").attributes).value;
  EXPECT_EQ(value.data<Complex64>()[0], Complex64(1, -2.5F));
  EXPECT_EQ(value.data<Complex64>()[2], Complex64(4, 0));
  EXPECT_TRUE(std::isinf(value.data<Complex64>()[1].real()));
  EXPECT_TRUE(std::isnan(value.data<Complex64>()[1].imag()));
  EXPECT_NE(refusal_of(module("  ROOT c = c64[] constant((1, 2)")), "");
}

TEST(XlaSpellings, NarrowTypesAreReadConvertedAndPrinted) {
  const Program program = round_trip(R"(HloModule m
ENTRY e {
  a = s4[3] constant({-8, 7, -1})
  b = f8e4m3fn[4] constant({448, -0.001953125, nan, 1.25})
  c = f8e5m2[3] constant({inf, -57344, 0.5})
  d = s32[3] convert(a)
  e = f32[4] convert(b)
  f = f32[3] convert(c)
  big = f32[2] constant({1000, 17})
  g = f8e4m3fn[2] convert(big)
  h = f32[2] convert(g)
  ROOT r = (s32[3], f32[4], f32[3], f32[2]) tuple(d, e, f, h)
})");
  const auto out = evaluate(program, {}).elements();
  EXPECT_EQ(out[0], Literal::from<std::int32_t>({3}, {-8, 7, -1}));
  EXPECT_EQ(out[1].data<float>()[0], 448);
  EXPECT_EQ(out[1].data<float>()[1], -0.001953125);
  EXPECT_TRUE(std::isnan(out[1].data<float>()[2]));
  EXPECT_EQ(out[2].data<float>()[1], -57344);
  EXPECT_TRUE(std::isnan(out[3].data<float>()[0]));  // the type has no infinity
  EXPECT_EQ(out[3].data<float>()[1], 16);            // a tie between 16 and 18: rounds to even
}

TEST(XlaSpellings, AnyOpWithStartAndDoneIsAsyncOfAComputationThatContainsIt) {
  const Program program = round_trip(R"(HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  s = ((f32[2,3]), f32[3,2], u32[]) transpose-start(x), dimensions={1,0}, async_execution_thread="other"
  u = ((f32[2,3]), f32[3,2], u32[]) transpose-update(s)
  ROOT r = f32[3,2] transpose-done(u)
})");
  EXPECT_EQ(named(program, "s").op->name, "async-start");
  EXPECT_EQ(async_half(*named(program, "u").op), AsyncHalf::kUpdate);
  EXPECT_EQ(program.computations.front()->execution_thread, "other");
  const Literal x = Literal::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluate(program, {x}), Literal::from<float>({3, 2}, {1, 4, 2, 5, 3, 6}));
}

TEST(XlaSpellings, NativePairsReadTheirTuples) {
  const Program program = round_trip(R"(HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  g = (f32[2], f32[4]) all-gather-start(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  gd = f32[4] all-gather-done(g)
  r = f32[4] all-reduce-start(gd), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  rd = f32[4] all-reduce-done(r)
  p = (f32[4], f32[4], u32[], u32[]) collective-permute-start(rd), channel_id=3, source_target_pairs={{0,1},{1,0}}
  pd = f32[4] collective-permute-done(p)
  c = (f32[4], f32[4], u32[]) copy-start(pd)
  ROOT cd = f32[4] copy-done(c)
})");
  const auto out =
      evaluate_lockstep(program, {{Literal::from<float>({2}, {1, 2})}, {Literal::from<float>({2}, {3, 4})}});
  EXPECT_EQ(out[0], Literal::from<float>({4}, {2, 4, 6, 8}));
  EXPECT_EQ(out[1], out[0]);
}

TEST(XlaSpellings, FusionsAreCallsAndKeepTheirKindAndConfig) {
  const std::string text = R"(HloModule m
f {
  a = f32[2,3] parameter(0)
  ROOT b = f32[2,3] negate(a)
}, execution_thread="host"
ENTRY e {
  x = f32[2,3]{0,1:T(8,128)(2,1)S(5)} parameter(0), parameter_replication={true}
  ROOT r = f32[2,3]{0,1} fusion(x), kind=kLoop, calls=f, backend_config={"outer": {"list": [1, 2, "}"]}}, origin={{"x"}}
})";
  const Program program = round_trip(text);
  EXPECT_EQ(named(program, "r").type.layout(), (Dims{0, 1}));
  const std::string printed = print_program(program);
  EXPECT_NE(printed.find("kind=kLoop"), std::string::npos);
  EXPECT_NE(printed.find(R"(backend_config={"outer": {"list": [1, 2, "}"]}})"), std::string::npos);
  EXPECT_NE(printed.find("}, execution_thread=\"host\""), std::string::npos);
  const Literal x = Literal::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluate(program, {x}), Literal::from<float>({2, 3}, {-1, -2, -3, -4, -5, -6}));
}

TEST(XlaSpellings, PercentSignsTypesAndNamesAreOptional) {
  const Program program = round_trip(R"(HloModule m // a comment
ENTRY e { /* another */
  x = f32[2,3] parameter(0)
  y = add(x, multiply(x, /*index=1*/ negate(x)))
  ROOT t = tuple(y, %x)
})");
  EXPECT_EQ(named(program, "t").type.str(), "(f32[2,3], f32[2,3])");
}

TEST(XlaSpellings, SizesKnownOnlyAtRunTimeAreRefusedByName) {
  EXPECT_NE(refusal_of("HloModule m\nENTRY e { ROOT x = f32[<=8,3] parameter(0) }").find("known only at run time"),
            std::string::npos);
  EXPECT_NE(refusal_of("HloModule m\nENTRY e { ROOT x = f32[?] parameter(0) }").find("known only at run time"),
            std::string::npos);
}

TEST(XlaSpellings, BitcastsFollowTheLayoutsOnBothSides) {
  // Column-major: this is the transpose.
  const Program program = round_trip(module("  ROOT r = f32[3,2]{0,1} bitcast(x)"));
  const Literal x = Literal::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluate(program, {x}), Literal::from<float>({3, 2}, {1, 4, 2, 5, 3, 6}));
  const Program plain = round_trip(module("  ROOT r = f32[6] bitcast(x)"));
  EXPECT_EQ(evaluate(plain, {x}), Literal::from<float>({6}, {1, 2, 3, 4, 5, 6}));
}

TEST(XlaSpellings, EffectsKeepTheirOrderAndAreNeverMerged) {
  const Program program = round_trip(R"(HloModule m
ENTRY e {
  t0 = token[] after-all()
  in = (f32[4], token[]) infeed(t0), infeed_config="feed"
  data = f32[4] get-tuple-element(in), index=0
  t1 = token[] get-tuple-element(in), index=1
  out = token[] outfeed(data, t1), outfeed_shape=f32[4]{0}
  s = (f32[4], u32[], token[]) send(data, out), channel_id=1, is_host_transfer=true
  sd = token[] send-done(s), channel_id=1, is_host_transfer=true
  r = (f32[4], u32[], token[]) recv(sd), channel_id=2
  rd = (f32[4], token[]) recv-done(r), channel_id=2
  ROOT got = f32[4] get-tuple-element(rd), index=0
})");
  EXPECT_TRUE(has_side_effect(named(program, "out")));
  EXPECT_EQ(named(program, "s").notes->other.size(), 2U);
  evaluate(program, {});
}

TEST(XlaSpellings, InlineComputationsGetNewNames) {
  const Program program = round_trip(R"(HloModule m
_ { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] multiply(x, y) }
ENTRY e {
  a = f32[4] parameter(0), sharding={replicated}
  i = s32[] parameter(1)
  z = f32[] constant(1)
  p = f32[] reduce(a, z), dimensions={0}, to_apply=_
  r = f32[] reduce(a, z), dimensions={0}, to_apply={ x = f32[] parameter(0)
    y = f32[] parameter(1), sharding={replicated}
    ROOT s = f32[] add(x, y) }
  f = f32[4] fusion(a), kind=kLoop, calls={
    x = f32[4] parameter(0)
    ROOT y = f32[4] map(x), dimensions={0}, to_apply={ROOT u = f32[] parameter(0)}
  }
  g = f32[4] conditional(i, f, a), branch_computations={ {ROOT %x = f32[4] parameter(0)}, {x = f32[4] parameter(0)
    ROOT y = f32[4] negate(x)}}
  ROOT t = (f32[], f32[], f32[4]) tuple(p, r, g), sharding={{replicated}, {replicated}, {replicated}}
})");
  const auto out =
      evaluate(program, {Literal::from<float>({4}, {1, 2, 3, 4}), Literal::scalar<std::int32_t>(1)}).elements();
  EXPECT_EQ(out[0].data<float>()[0], 24);
  EXPECT_EQ(out[1].data<float>()[0], 11);
  EXPECT_EQ(out[2], Literal::from<float>({4}, {-1, -2, -3, -4}));
  EXPECT_EQ(program.computations.size(), 7U);
  EXPECT_NE(refusal_of(module("  ROOT c = f32[2,3] call(x), to_apply={ROOT y = f32[2,3] parameter(0)")), "");
}

TEST(XlaSpellings, AModuleMayConsistOfComputationsOrOfOneInstruction) {
  const Program computations =
      round_trip("add { x = f32[] parameter(0) ROOT y = f32[] negate(x) }\nENTRY e { ROOT a = f32[4] parameter(0) }");
  EXPECT_EQ(computations.name, "module_e");
  EXPECT_EQ(computations.entry_computation().name, "e");
  const Program add = round_trip("f32[2] subtract(f32[2] x, f32[2] y)");
  EXPECT_EQ(evaluate(add, {Literal::from<float>({2}, {5, 7}), Literal::from<float>({2}, {1, 2})}),
            Literal::from<float>({2}, {4, 5}));
  EXPECT_EQ(round_trip("%r = f32[2] add(f32[2] %x, f32[2] %x)").entry_computation().parameters.size(), 1U);
  EXPECT_EQ(round_trip("f32[2] add(f32[2], f32[2])").entry_computation().parameters.size(), 2U);
  round_trip(
      "s = f32[] reduce(f32[4] a, f32[] z), dimensions={0}, to_apply={ x = f32[] parameter(0) y = f32[] parameter(1) "
      "ROOT z = f32[] add(x,y) }");
  EXPECT_NE(refusal_of("a = f32[4] parameter(0)\nROOT b = f32[4] add(a, a)").find("the end of the only instruction"),
            std::string::npos);
}

TEST(XlaSpellings, StringsMayHaveSingleQuotes) {
  const Program program = round_trip(
      module("  ROOT y = f32[2,3] negate(x), metadata={op_name='it\\'s \"}'}, frontend_attributes={k='a}'}"));
  EXPECT_EQ(named(program, "y").notes->op_name, "it's \"}");
  EXPECT_EQ(*named(program, "y").frontend_attribute("k"), "a}");
}

TEST(XlaSpellings, EveryNumberButZeroIsTrueAndEmptyRowsPrintOneByOne) {
  const Program program = round_trip(module(
      "  p = pred[3] constant({2, -1, 0})\n  e = f32[2,0] constant({{},{}})\n  ROOT z = f32[2,0,3] constant({})"));
  const auto data = attributes_as<ConstantAttributes>(named(program, "p").attributes).value.data<bool>();
  EXPECT_TRUE(data[0] && data[1] && !data[2]);
  EXPECT_NE(print_program(program).find("f32[2,0]{1,0} constant({{}, {}})"), std::string::npos)
      << print_program(program);
  EXPECT_NE(print_program(program).find("f32[2,0,3]{2,1,0} constant({{}, {}})"), std::string::npos);
}

TEST(XlaSpellings, LayoutSuffixesAndSourceTablesArePrintedAgain) {
  const std::string text =
      R"(HloModule m, entry_computation_layout={(f32[8,128]{1,0:T(8,128)}, s4[8]{0:E(4)})->(f32[8,128]{0,1:T(8,128)(2,1)S(1)}, s4[8]{0})}

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=5}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY %e (a: f32[8,128], b: s4[8]) -> (f32[8,128], s4[8]) {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %b = s4[8]{0:E(4)} parameter(1)
  %c = f32[8,128]{0,1:T(8,128)(2,1)S(1)} copy(%a), metadata={op_name="x" stack_frame_id=1}
  %d = f32[]{:T(128)} constant(1), metadata={source_file="b.py" source_line=4 stack_frame_id=1}
  ROOT %t = (f32[8,128]{0,1:T(8,128)(2,1)S(1)}, s4[8]{0}) tuple(%c, %b)
}
)";
  const Program program = round_trip(text);
  EXPECT_EQ(print_program(program), text);
  EXPECT_EQ(for_xla(text), text);
  EXPECT_EQ(named(program, "c").source(), "a.py:3");
}

TEST(XlaSpellings, ALayoutSuffixIsDroppedWhenTheShapeChanges) {
  Program program = read("HloModule m\nENTRY e {\n  ROOT a = f32[8,128]{1,0:T(8,128)} parameter(0)\n}");
  Computation entry = program.entry_computation();
  entry.instructions[0].type = Type::array(DType::kF32, {4, 128});
  program.computations[0] = std::make_shared<const Computation>(std::move(entry));
  const std::string text = print_program(program);
  EXPECT_NE(text.find("%a = f32[4,128]{1,0} parameter(0)\n"), std::string::npos) << text;
}

TEST(XlaSpellings, ForXlaFormsThatItsReaderRefusesAreReplaced) {
  const std::string text =
      for_xla(module("  y = f32[2,3] negate(x), metadata={op_name=\"q\" preserve_layout=true source_column=3}\n"
                     "  s = ((f32[2,3]), f32[2,3], u32[]) custom-call-start(y), custom_call_target=\"foo\"\n"
                     "  ROOT d = f32[2,3] custom-call-done(s), custom_call_target=\"foo\""));
  EXPECT_NE(text.find("metadata={op_name=\"q\" source_column=3}"), std::string::npos) << text;
  EXPECT_NE(text.find("async-done(%s)\n"), std::string::npos) << text;
}

TEST(XlaSpellings, NamesThatXlaRefusesAreReplaced) {
  const std::string text = for_xla(
      "HloModule m\n%2 { %1 = f32[2] parameter(0)\n ROOT %_1 = f32[2] negate(%1) }\nENTRY e {\n  %f32 = f32[2] "
      "parameter(0)\n  c = f32[2] call(%f32), to_apply=%2\n  ROOT %3x = f32[2] sine(c), "
      "control-predecessors={%f32}\n}");
  for (const char* line :
       {"%_2 (__1: f32[2]) ->", "%__1 = f32[2]{0} parameter(0)", "%_1 = f32[2]{0} negate(%__1)", "%e (_f32: f32[2]) ->",
        "call(%_f32), to_apply=%_2", "%_3x = f32[2]{0} sine(%c), control-predecessors={%_f32}"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(XlaSpellings, ACommaMayEndALiteralAndAShardingMayBeEmpty) {
  const Program program = round_trip(
      module("  c = f32[2,2] constant({{1,2,},{3,4},}), sharding={}\n  ROOT y = f32[2,3] negate(x), sharding={ }"));
  EXPECT_EQ(attributes_as<ConstantAttributes>(named(program, "c").attributes).value,
            Literal::from<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(named(program, "y").sharding, nullptr);
  EXPECT_NE(refusal_of(module("  ROOT c = f32[2] constant({1,,2})")), "");
  EXPECT_NE(refusal_of(module("  ROOT c = f32[3] constant({1,2,})")), "");
  EXPECT_NE(refusal_of(module("  ROOT t = (f32[2,3]) tuple(x), sharding={}")), "");
}

TEST(XlaSpellings, TheModeOfACollectiveMustAgreeWithItsChannel) {
  const auto text = [](std::string_view attributes) {
    return fmt::format(
        "HloModule m, num_partitions=4\ns {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) "
        "}}\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] all-reduce(x), "
        "replica_groups={{{{0,1,2,3}}}}, to_apply=s, {}\n}}",
        attributes);
  };
  for (const char* good :
       {"mode=cross_replica", "channel_id=1, mode=cross_partition", "channel_id=1, mode=cross_replica_and_partition",
        "channel_id=1, use_global_device_ids=true, mode=flattened_id"})
    EXPECT_EQ(named(round_trip(text(good)), "y").notes->other.size(), 1U) << good;
  const std::string refusal = refusal_of(text("channel_id=1, use_global_device_ids=true, mode=cross_replica"));
  EXPECT_NE(refusal.find("mode=cross_replica contradicts channel_id and use_global_device_ids=true, which mean "
                         "flattened_id"),
            std::string::npos)
      << refusal;
  EXPECT_NE(refusal_of(text("mode=cross_partition")).find("contradicts the lack of a channel_id"), std::string::npos);
  EXPECT_NE(refusal_of(text("mode=cross_replicas")).find("did you mean \"cross_replica\"?"), std::string::npos);
}

TEST(XlaSpellings, AMeshOfOneDeviceMayHaveAnyNameAndOneDeviceMayBeTiled) {
  const Program one = round_trip(
      "HloModule m\nENTRY e {\n  a = f32[8,6] parameter(0), sharding={devices=[1,1]<=[1]}\n  ROOT b = f32[8,6] "
      "negate(a), sharding={devices=[1,1,1]<=[1] last_tile_dim_replicate}\n}");
  EXPECT_TRUE(named(one, "a").sharding->front().is_replicated());
  const Program program = round_trip(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=8]>, m0 = #sdy.mesh<[], device_ids=[3]>}"}
ENTRY e {
  a = f32[8,6] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@m0, []>"}
  ROOT b = f32[8,6] negate(a)
})");
  EXPECT_EQ(named(program, "a").sharding->front(), Sharding::maximal(program.meshes.front(), 3));
}

}  // namespace
}  // namespace tessera
