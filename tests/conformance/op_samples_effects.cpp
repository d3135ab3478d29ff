// SPDX-License-Identifier: Apache-2.0
// Ops with side effects, and asynchronous operations with -start and -done.
#include "conformance/op_samples.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

const OpDef& row(std::string_view name) { return op_table().get(name); }
Value token(Builder& b) { return b.emit(row("after-all"), {}); }

void add(std::vector<Sample>& out, std::string op, std::vector<SampleOperand> operands,
         std::function<Value(Builder&, const Values&)> build) {
  out.push_back({.op = std::move(op), .operands = std::move(operands), .build = std::move(build), .splits = false});
}

void add_feeds(std::vector<Sample>& out) {
  add(out, "infeed", {}, [](Builder& b, const Values&) {
    return b.emit(row("infeed"), {token(b)}, nullptr, {.type = Type::tuple({f32(3, 5), Type::token()})});
  });
  add(out, "outfeed", {{f32(3, 5)}}, [](Builder& b, const Values& v) {
    return b.emit(row("outfeed"), {v[0], token(b)}, nullptr, {.type = Type::token()});
  });
}

void add_sends(std::vector<Sample>& out) {
  const Type started = Type::tuple({f32(3), u32(), Type::token()});
  const auto send = [=](Builder& b, Value x) { return b.emit(row("send"), {x, token(b)}, nullptr, {.type = started}); };
  const auto recv = [=](Builder& b) { return b.emit(row("recv"), {token(b)}, nullptr, {.type = started}); };
  add(out, "send", {{f32(3)}}, [=](Builder& b, const Values& v) { return send(b, v[0]); });
  add(out, "send-done", {{f32(3)}}, [=](Builder& b, const Values& v) {
    return b.emit(row("send-done"), {send(b, v[0])}, nullptr, {.type = Type::token()});
  });
  add(out, "recv", {}, [=](Builder& b, const Values&) { return recv(b); });
  add(out, "recv-done", {}, [=](Builder& b, const Values&) {
    return b.emit(row("recv-done"), {recv(b)}, nullptr, {.type = Type::tuple({f32(3), Type::token()})});
  });
}

void add_random_bits(std::vector<Sample>& out) {
  add(out, "rng", {{f32()}, {f32()}}, [](Builder& b, const Values& v) {
    return b.emit(row("rng"), {v[0], v[1]}, make_attributes(RngAttributes{RngDistribution::kUniform}),
                  {.type = f32(3, 5)});
  });
  add(out, "rng-get-and-update-state", {}, [](Builder& b, const Values&) {
    return b.emit(row("rng-get-and-update-state"), {}, nullptr, {.type = Type::array(DType::kU64, {1, 2})});
  });
}

ComputationId sine(ProgramBuilder& program) {
  Builder b = program.computation("wrapped");
  const Value root = ops::sin(ops::parameter(b, 0, f64(3)));
  return program.add(std::move(b), root);
}

void add_pairs(std::vector<Sample>& out) {
  const auto start = [](Builder& b, Value x) {
    return b.emit(row("async-start"), {x}, nullptr,
                  {.type = Type::tuple({Type::tuple({f64(3)}), f64(3), u32()}), .called = {sine(b.program())}});
  };
  add(out, "async-start", {{f64(3)}}, [=](Builder& b, const Values& v) { return start(b, v[0]); });
  add(out, "async-update", {{f64(3)}},
      [=](Builder& b, const Values& v) { return b.emit(row("async-update"), {start(b, v[0])}); });
  add(out, "async-done", {{f64(3)}},
      [=](Builder& b, const Values& v) { return b.emit(row("async-done"), {start(b, v[0])}); });
  const auto copy = [](Builder& b, Value x) {
    return b.emit(row("copy-start"), {x}, nullptr, {.type = Type::tuple({x.type(), x.type(), u32()})});
  };
  add(out, "copy-start", {{f64(3)}}, [=](Builder& b, const Values& v) { return copy(b, v[0]); });
  add(out, "copy-done", {{f64(3)}},
      [=](Builder& b, const Values& v) { return b.emit(row("copy-done"), {copy(b, v[0])}); });
}

// On one device, as in op_samples_control.cpp.
void add_collective_pairs(std::vector<Sample>& out) {
  const auto add_pair = [&](const std::string& name, const auto& synchronous, bool in_tuple) {
    const auto start = [=](Builder& b, Value x) {
      const Instruction made = synchronous(x).instruction();
      const Type type = in_tuple ? Type::tuple({x.type(), made.type}) : made.type;
      return b.emit(row(name + "-start"), {x}, made.attributes, {.type = type, .called = made.called});
    };
    out.push_back({.op = name + "-start",
                   .operands = {{f32(4, 3)}},
                   .build = [=](Builder& b, const Values& v) { return start(b, v[0]); },
                   .splits = false,
                   .takes_anything = true});
    add(out, name + "-done", {{f32(4, 3)}},
        [=](Builder& b, const Values& v) { return b.emit(row(name + "-done"), {start(b, v[0])}); });
  };
  const ReplicaGroups all{{{0}}};
  add_pair(
      "all-gather", [=](Value x) { return ops::all_gather(x, 0, all, 1); }, true);
  add_pair(
      "all-reduce", [=](Value x) { return ops::all_reduce(x, Reduction::kMax, all, 1); }, false);
  add_pair(
      "collective-permute",
      [](Value x) {
        return ops::collective_permute(x, SourceTargetPairs{{{0, 0}}}, 1);
      },
      true);
}

}  // namespace

std::vector<Sample> effect_samples() {
  std::vector<Sample> out;
  add_feeds(out);
  add_sends(out);
  add_random_bits(out);
  add_pairs(out);
  add_collective_pairs(out);
  add(out, "add-dependency", {{f64(3, 5)}}, [](Builder& b, const Values& v) {
    return b.emit(row("add-dependency"), {v[0], token(b)});
  });
  out.push_back({.op = "domain",
                 .operands = {{f64(3, 5)}},
                 .build = [](Builder& b, const Values& v) { return b.emit(row("domain"), {v[0]}); },
                 .takes_anything = true});
  out.push_back({.op = "fusion",
                 .operands = {{f64(3)}},
                 .build =
                     [](Builder& b, const Values& v) {
                       return b.emit(row("fusion"), {v[0]}, nullptr, {.type = f64(3), .called = {sine(b.program())}});
                     },
                 .splits = false});
  return out;
}

}  // namespace tessera::conformance
