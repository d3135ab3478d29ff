// SPDX-License-Identifier: Apache-2.0
// Round trips: printing preserves the content of HLO text in all its forms.
#include "tessera/ir/text.h"

#include <gtest/gtest.h>

#include "round_trip.h"
#include "tessera/base/error.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

constexpr std::string_view kMlp =
    R"(HloModule mlp, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }, entry_computation_layout={(f32[6,4]{1,0}, f32[4,4]{0,1})->(f32[6,4]{1,0}, f32[4,4]{1,0})}, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (x: f32[6,4], w: f32[4,4]) -> (f32[6,4], f32[4,4]) {
  %x = f32[6,4]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  %w = f32[4,4]{0,1} parameter(1)
  %h = f32[6,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="mlp/dot" source_file="train.cpp" source_line=41}
  %zero = f32[] constant(0)
  %total = f32[] reduce(%h, %zero), dimensions={0,1}, to_apply=%add
  %copy = f32[4,4]{1,0} copy(%w), control-predecessors={%total, %h}
  ROOT %out = (f32[6,4]{1,0}, f32[4,4]{1,0}) tuple(%h, %copy)
}
)";

TEST(ProgramText, PrintsInXlasOrderAndReadsBackEqual) {
  const Program program = round_trip(kMlp);
  EXPECT_EQ(print_program(program), kMlp);
  EXPECT_EQ(program.name, "mlp");
  EXPECT_EQ(program.num_partitions, 2);
  ASSERT_EQ(program.aliases.size(), 2U);
  EXPECT_TRUE(program.aliases[1].must);
  EXPECT_EQ(named(program, "h").source(), "train.cpp:41");
  EXPECT_EQ(named(program, "h").notes->op_name, "mlp/dot");
  EXPECT_EQ(named(program, "w").type.layout(), (Dims{0, 1}));
  EXPECT_EQ(named(program, "copy").control_predecessors.size(), 2U);
}

TEST(ProgramText, PercentSignsHeadersTypesAndRootAreOptional) {
  const Program program = round_trip(R"(
    // a comment
    HloModule bare
    add { a = f32[] parameter(0)  b = f32[] parameter(1)
          sum = add(a, b) }
    main {
      x = f32[2,3] parameter(0) /* another */
      y = multiply(x, /*index=1*/x)
      zero = f32[] constant(0)
      s = reduce(y, zero), dimensions={0,1}, to_apply=add
    }
  )");
  EXPECT_EQ(program.entry_computation().name, "main");
  EXPECT_EQ(named(program, "s").type, Type::scalar(DType::kF32));
  EXPECT_EQ(program.entry_computation().root, 3);
  EXPECT_EQ(program[0].root, 2);
}

TEST(ProgramText, OperandsMayCarryTypesAndNestedInstructions) {
  const Program program = round_trip(R"(HloModule m
    ENTRY e {
      x = f32[4]{0} parameter(0)
      ROOT r = f32[4] add(f32[4]{0} x, f32[4] multiply(%x, negate(x)))
      multiply = f32[4] abs(x)
    })");
  EXPECT_EQ(program.entry_computation().size(), 5);
  EXPECT_EQ(named(program, "r").operands, (std::vector<Id>{0, 2}));
  EXPECT_EQ(named(program, "multiply").op->name, "abs");
  EXPECT_EQ(program.entry_computation()[2].name, "multiply.1");
}

TEST(ProgramText, ParametersMayBeInAnyOrder) {
  const Program program = round_trip(R"(HloModule m
    ENTRY e { y = f32[2] parameter(1)  x = f32[3] parameter(0)  ROOT t = (f32[3], f32[2]) tuple(x, y) })");
  EXPECT_EQ(program.entry_computation().parameters, (std::vector<Id>{1, 0}));
}

TEST(ProgramText, TheLastComputationIsTheEntryUnlessOneIsMarked) {
  EXPECT_EQ(read("HloModule m\n a { x = f32[] parameter(0) }\n b { y = f32[] parameter(0) }").entry, 1);
  const Program program = round_trip("HloModule m\n ENTRY a { x = f32[] parameter(0) }\n b { y = f32[] parameter(0) }");
  EXPECT_EQ(program.entry, 0);
}

TEST(ProgramText, LayoutsKeepTheirOrderButNotTheirTiles) {
  const Program program = round_trip(R"(HloModule m
    ENTRY e (x: f32[8,128], s: f32[]) -> f32[8,128] {
      x = f32[8,128]{0,1:T(8,128)(2,1)S(5)} parameter(0)
      s = f32[]{:T(128)} parameter(1)
      ROOT y = f32[8,128]{1,0} copy(x)
    })");
  EXPECT_EQ(named(program, "x").type.layout(), (Dims{0, 1}));
  EXPECT_TRUE(named(program, "y").type.layout().empty());
}

TEST(ProgramText, ABraceAfterTheResultTypeOpensTheBodyUnlessANumberFollows) {
  EXPECT_EQ(read("HloModule m\n ENTRY e (x: f32[2]) -> f32[2] { x = f32[2] parameter(0) }").entry_computation().size(),
            1);
  EXPECT_EQ(
      read("HloModule m\n ENTRY e (x: f32[2]) -> f32[2]{0} { x = f32[2] parameter(0) }").entry_computation().size(), 1);
}

TEST(ProgramText, HeaderFormsAreUnderstoodOrKept) {
  const Program program = round_trip(
      "HloModule jit_f.1, is_scheduled=true, buffer_donor={ (0, {}) }, "
      "allow_spmd_sharding_propagation_to_parameters={true,false}, "
      "allow_spmd_sharding_propagation_to_output=true, replica_count=3, num_partitions=4, "
      "future_attribute={a={b},c=\"}\"}, "
      "frontend_attributes={fingerprint=\"a\\\"b\",raw={\"k\": [1, {}]}}\n"
      "ENTRY e { x = f32[] parameter(0)\n y = f32[] parameter(1) }, execution_thread=\"main\"");
  EXPECT_EQ(program.propagate_to_parameters, (std::vector<bool>{true, false}));
  EXPECT_EQ(program.propagate_to_output, (std::vector<bool>{true}));
  EXPECT_EQ(program.replica_count, 3);
  EXPECT_EQ(program.num_partitions, 4);
  ASSERT_EQ(program.frontend_attributes.size(), 2U);
  EXPECT_EQ(program.frontend_attributes[0].second, "a\"b");
  EXPECT_EQ(program.frontend_attributes[1].second, "{\"k\": [1, {}]}");
  ASSERT_EQ(program.other.size(), 3U);
  EXPECT_EQ(program.other[2].text, "{a={b},c=\"}\"}");
}

// XLA's partitioner writes such aliases if a parameter is sharded and the result is not.
TEST(ProgramText, AnAliasOfArraysOfDifferentSizesIsLeftOut) {
  const Program program = read(
      "HloModule m, num_partitions=2, input_output_alias={ {0}: (1, {}), {1}: (0, {}) }\n"
      "ENTRY e { x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n ROOT t = (f32[2], f32[2]) tuple(x, x) }");
  ASSERT_EQ(program.aliases.size(), 1U);
  EXPECT_EQ(program.aliases[0].parameter, 0);
}

TEST(ProgramText, UnknownAttributesAreKeptVerbatim) {
  const Program program = round_trip(R"(HloModule m
    ENTRY e {
      x = f32[2] parameter(0), frontend_attributes={k="v w",_xla_x={"a":{"b":1}}}, parameter_replication={false}
      ROOT y = f32[2] exponential(x), backend_config={"window": {"size": [1, "}"]}}, result_accuracy={tolerance={rtol=1e-5}}, operand_layout=a->b, metadata={op_type="exp" op_name="n\"q" source_file="a.py" source_line=3 source_end_line=9 stack_frame_id=7}
    })");
  const Instruction& y = named(program, "y");
  ASSERT_EQ(y.notes->other.size(), 3U);
  EXPECT_EQ(y.notes->other[0].text, "{tolerance={rtol=1e-5}}");
  EXPECT_EQ(y.notes->other[1].text, "a->b");
  EXPECT_EQ(y.notes->other[2].name, "backend_config");
  EXPECT_EQ(y.notes->op_name, "n\"q");
  EXPECT_EQ(y.notes->metadata_rest.size(), 2U);
  EXPECT_EQ(*named(program, "x").frontend_attribute("_xla_x"), "{\"a\":{\"b\":1}}");
}

TEST(ProgramText, ControlFlowNamesItsComputations) {
  const Program program = round_trip(R"(HloModule m
    cond (s: (s32[], f32[3])) -> pred[] {
      s = (s32[], f32[3]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(5)
      ROOT lt = pred[] compare(i, n), direction=LT
    }
    body (s: (s32[], f32[3])) -> (s32[], f32[3]) {
      s = (s32[], f32[3]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      v = f32[3] get-tuple-element(s), index=1
      j = s32[] add(i, one)
      ROOT t = (s32[], f32[3]) tuple(j, v)
    }
    neg { x = f32[3] parameter(0)  ROOT y = f32[3] negate(x) }
    idt { x = f32[3] parameter(0)  ROOT y = f32[3] copy(x) }
    ENTRY e {
      v = f32[3] parameter(0)
      p = pred[] parameter(1)
      k = s32[] parameter(2)
      i = s32[] constant(0)
      t = (s32[], f32[3]) tuple(i, v)
      w = (s32[], f32[3]) while(t), condition=cond, body=body
      r = f32[3] get-tuple-element(w), index=1
      c1 = f32[3] conditional(p, r, v), true_computation=neg, false_computation=idt
      c2 = f32[3] conditional(k, c1, v), branch_computations={neg, %idt}
      ROOT c3 = f32[3] call(c2), to_apply=neg
    })");
  EXPECT_EQ(named(program, "w").called, (std::vector<ComputationId>{0, 1}));
  EXPECT_EQ(named(program, "c2").called, (std::vector<ComputationId>{2, 3}));
}

TEST(ProgramText, ForXlaLeavesOutAttributesUnknownToXla) {
  const Program program = read(
      R"(HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=2]>},tessera.partitioned="true",mine="1"}
    ENTRY e { x = f32[4] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"model\", ?}]>",tessera.unit="h.0",k="v"} })");
  EXPECT_TRUE(program.partitioned);
  const auto text = print_program(program, {.for_xla = true});
  EXPECT_EQ(text.find("sdy"), std::string::npos) << text;
  EXPECT_EQ(text.find("tessera"), std::string::npos) << text;
  EXPECT_NE(text.find("frontend_attributes={mine=\"1\"}"), std::string::npos) << text;
  EXPECT_NE(text.find("sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, frontend_attributes={k=\"v\"}"),
            std::string::npos)
      << text;
}

TEST(ProgramText, ReadsALargeModule) {
  std::string text =
      "HloModule large\nENTRY e {\n  v0 = f32[128,64]{1,0} parameter(0), sharding={devices=[4,2]<=[8]}\n";
  constexpr int kCount = 100'000;
  for (int i = 1; i < kCount; ++i)
    text += "  v" + std::to_string(i) + " = f32[128,64]{1,0} add(v" + std::to_string(i - 1) + ", v" +
            std::to_string(i / 2) +
            "), sharding={devices=[4,2]<=[8]}, metadata={op_name=\"a\" source_file=\"b.py\" source_line=" +
            std::to_string(i) + "}\n";
  text += "}\n";
  const Program program = read(text);
  EXPECT_EQ(program.entry_computation().size(), kCount);
  const auto printed = print_program(program);
  EXPECT_EQ(printed.find("sdy"), std::string::npos);
}

// As in XLA's reader. The listed result type must be that of the root.
TEST(ProgramText, TheBodyOverridesTheListedParameters) {
  const Program program = parse_program(
      "HloModule m\nf (a: f32[3], b: f32[]) -> f32[4] { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }\n"
      "ENTRY e (x: s32[2]) -> f32[4] { x = f32[4] parameter(0) ROOT y = f32[4] call(x), to_apply=f }",
      op_table());
  EXPECT_EQ(program[0].parameter_types(), std::vector<Type>{Type::array(DType::kF32, {4})});
  EXPECT_NE(print_program(program).find("ENTRY %e (x: f32[4]) -> f32[4]"), std::string::npos);
}

TEST(Verify, NamesTheInstructionAndThePass) {
  const Program program = read("HloModule m\n ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }");
  const auto broken = [&](auto&& change) -> std::string {
    Program copy = program;
    auto computation = std::make_shared<Computation>(copy.entry_computation());
    change(*computation);
    copy.computations[0] = computation;
    try {
      verify(copy, "after pass 'localize'");
    } catch (const InternalError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(broken([](Computation&) {}), "no error");
  EXPECT_EQ(broken([](Computation& c) { c.instructions[1].operands[0] = 1; }),
            "after pass 'localize': %y in %e: operand %y is not defined before it");
  EXPECT_EQ(broken([](Computation& c) { c.instructions[1].name = "x"; }),
            "after pass 'localize': %x in %e: a second instruction of this name");
  EXPECT_EQ(broken([](Computation& c) { c.instructions[1].type = Type::array(DType::kF32, {3}); }).substr(0, 34),
            "after pass 'localize': %y in %e: i");
  EXPECT_EQ(broken([](Computation& c) { c.instructions[1].sharding = make_shardings({}); }),
            "after pass 'localize': %y in %e: 0 shardings for the 1 leaves of f32[2]");
  EXPECT_EQ(broken([](Computation& c) {
              c.instructions[1].sharding = make_sharding(Sharding::replicated(Mesh({{"x", 2}}), 1));
            }),
            "after pass 'localize': %y in %e: its sharding is on mesh<x=2>, the program is over 1 devices");
  EXPECT_EQ(broken([](Computation& c) { c.parameters.clear(); }),
            "after pass 'localize': %x in %e is not listed as a parameter");
  EXPECT_EQ(broken([](Computation& c) {  // a copy of a parameter, as a faulty pass might create
              c.instructions[1] = c.instructions[0];
              c.instructions[1].name = "y";
              c.parameters.push_back(1);
            }),
            "after pass 'localize': %y in %e is parameter(0) but is at position 1 of the 2 parameters");
  EXPECT_EQ(broken([&](Computation& c) {
              AttributeReader reader(std::vector<TextAttribute>{{"number", "1"}});
              c.instructions[0].attributes = c.instructions[0].op->parse(reader);
            }),
            "after pass 'localize': %x in %e is parameter(1) but is at position 0 of the 1 parameters");
  EXPECT_EQ(broken([](Computation& c) { c.root = 7; }), "after pass 'localize': %e has no root");
}

TEST(Difference, DescribesTheFirstDifference) {
  const auto base = "HloModule m\n ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }";
  EXPECT_EQ(difference(read(base), read(base)), "");
  EXPECT_EQ(
      difference(read(base), read("HloModule n\n ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }")),
      "the modules are named m, and n");
  EXPECT_EQ(difference(read(base), read("HloModule m\n ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] abs(x) }")),
            "%e: instruction 1 differs in its op:\n  %y = f32[2]{0} negate(%x)\n  %y = f32[2]{0} abs(%x)");
  EXPECT_EQ(
      difference(read(base), read("HloModule m\n ENTRY e { ROOT x = f32[2] parameter(0)  y = f32[2] negate(x) }")),
      "%e: the roots are %y and %x");
}

}  // namespace
}  // namespace tessera
