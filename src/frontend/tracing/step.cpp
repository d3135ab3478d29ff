// SPDX-License-Identifier: Apache-2.0
// The operations that end or extend the trace: mark_step, reading values, backward.
#include <algorithm>
#include <set>

#include "execution/debug_report.h"
#include "execution/execute.h"
#include "sharding/choose_shardings.h"
#include "sharding/manual_scope.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/timeline.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tracing/error_context.h"
#include "tracing/gradient_storage.h"

namespace tessera {
namespace {

// Returns the input whose memory the new value of a variable may take over: no tensor holds its data any more.
int taken_over(const Trace& current, const Node& node) {
  const auto& old = node.replaces;
  if (!old || old->holders() > 0 || old->type != node.type) return -1;
  const auto& inputs = current.inputs();
  const auto found = std::find(inputs.begin(), inputs.end(), old);
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

}  // namespace

StepResults pending_results() {
  Trace& current = trace();
  current.require_no_function("a step ends");
  StepResults out;
  std::set<int> taken;  // each input by one result
  for (auto& node : current.live_nodes()) {
    if (node->has_data()) continue;
    int input = taken_over(current, *node);
    if (input >= 0 && !taken.insert(input).second) input = -1;
    out.outputs.push_back({current.builder().value(node->id), node->sharding, input, node->name});
    out.nodes.push_back(std::move(node));
  }
  return out;
}

void set_results(const StepResults& results, const RunResult& run) {
  for (std::size_t i = 0; i < results.nodes.size(); ++i) {
    Node& node = *results.nodes[i];
    node.shard = run.shards[i];
    node.sharding = run.shardings[i];
    node.replaces.reset();
  }
}

// The work of a step may begin in one scope of the user and end in another, so it has a row of its own.
void record_tracing(const RunReason& reason) {
  Timeline& timeline = Timeline::current();
  if (!timeline.is_on() || trace().first_op_at == 0) return;
  timeline.add_to_row("tracing", {.category = "trace", .name = "trace", .arguments = {{"for", reason.text}}},
                      trace().first_op_at, Timeline::now());
}

void mark_step(StepOptions options, std::source_location where) {
  mark_step(where);
  if (options.wait) wait_device_ops();
}

void mark_step(std::source_location where) {
  trace().note_graph_break();
  metrics().count("MarkStep");
  ++session().counters.mark_steps;
  Trace& current = trace();
  const StepResults results = pending_results();
  if (!results.nodes.empty()) {
    ExtractedProgram extracted = extract_program(current, results.outputs, "step");
    const RunReason reason = run_reason(RunReason::Kind::kMarkStep, where);
    record_tracing(reason);
    choose_shardings(extracted, results, reason);
    run_step(std::move(extracted), results, reason);
  }
  current.clear(true);
  report_step();
}

StepPlan plan_step() {
  StepResults results = pending_results();
  require(!results.nodes.empty(), "plan_step: nothing was traced since the last mark_step()");
  ExtractedProgram extracted = extract_program(trace(), results.outputs, "step");
  if (is_planning()) choose_shardings(extracted, results, {RunReason::Kind::kMarkStep, "plan_step"});
  StepPlan plan;
  plan.global = is_planning() ? std::move(extracted.program) : with_chosen_shardings(extracted, results);
  if (plan.global.num_partitions > 1) {
    plan.partitioned = partition(plan.global, partition_options(RunReason::Kind::kMarkStep));
  } else {
    plan.partitioned.program = plan.partitioned.global = plan.global;
  }
  return plan;
}

void skip_step() {
  require(is_planning(), "skip_step: this process executes the traced program; call plan_for_devices() first");
  Trace& current = trace();
  const StepResults results = pending_results();
  ExtractedProgram extracted = extract_program(current, results.outputs, "step");
  choose_shardings(extracted, results, {RunReason::Kind::kMarkStep, "skip_step"});
  const Program& program = extracted.program;
  const Shardings& shardings = *program.entry_computation()[program.entry_computation().root].sharding;
  for (std::size_t i = 0; i < results.nodes.size(); ++i) {
    Node& node = *results.nodes[i];
    node.is_abstract = true;
    node.sharding = shardings[i];
    node.replaces.reset();
  }
  current.clear(true);
}

// ---- reading ------------------------------------------------------------------------------------------------------------

namespace {

// A read may trace, wait for a step, run a program and copy the value.
EventLabel read_label(const std::string& what, const std::source_location& where) {
  return {.category = "read", .name = run_reason(RunReason::Kind::kRead, where, what).text};
}

bool is_complete_here(const Node& node) {
  return node.host.has_value() || (!node.shard.is_null() && (!node.sharding || node.sharding->is_replicated()));
}

// Computes complete values on every rank with a program that does not change the trace.
std::vector<Literal> read_by_program(const std::vector<Tensor>& tensors, const std::string& what,
                                     const std::source_location& where) {
  Trace& current = trace();
  current.require_no_function("a tensor is read");
  current.note_graph_break();
  metrics().count("ForcedExecution");
  ++session().counters.forced_reads;
  std::vector<ExtractedOutput> outputs;
  for (const auto& tensor : tensors) {
    const Value value = current.stored(tensor);
    in_context("", {&tensor}, where, [&] {
      require(
          !is_in_region(value),
          "a tensor in a function of shard_map is a shard that differs between devices, so the host cannot read it: "
          "return it from the function, and read the result");
    });
    outputs.push_back({value, Sharding::replicated(default_mesh(), tensor.ndim()), -1});
  }
  const RunResult run =
      run_extracted(extract_program(current, outputs, "read"), run_reason(RunReason::Kind::kRead, where, what));
  std::vector<Literal> out;
  for (const auto& shard : run.shards) out.push_back(shard.to_literal());
  return out;
}

}  // namespace

namespace {

// Counts tensors that code of the host reads: host_read::train.cpp:41.
void count_host_reads(const std::source_location& where, std::int64_t tensors = 1) {
  const NotesRef place = notes_at(where);
  metrics().count(fmt::format("host_read::{}:{}", place->source_file, place->source_line), tensors);
}

}  // namespace

std::vector<Literal> read_all(const std::vector<Tensor>& tensors, std::source_location where) {
  if (tensors.empty()) return {};
  for (const Tensor& tensor : tensors)
    trace().note_read(tensor, *(tensor.impl().stack ? tensor.impl().stack : tensor.impl_pointer())->node, where);
  const SyncScope place("sync::read_all");
  count_host_reads(where, isize(tensors));
  const TimelineSpan span([&] { return read_label(fmt::format("{} tensors", tensors.size()), where); });
  return read_by_program(tensors, fmt::format("{} tensors", tensors.size()), where);
}

Literal Tensor::to_host(std::source_location where) const {
  tessera::trace().note_read(*this, *(impl().stack ? impl().stack : impl_)->node, where);
  if (impl().stack) return Tensor(impl().stack).select(0, impl().row, where).to_host(where);
  Node& node = *impl().node;
  count_host_reads(where);
  const TimelineSpan span([&] { return read_label(what_is(*this), where); });
  if (node.is_deferred()) materialize({impl().node}, run_reason(RunReason::Kind::kRead, where, what_is(*this)).text);
  if (node.host) return *node.host;
  if (node.is_under_way) await_execution();
  if (is_complete_here(node)) return node.shard.to_literal();
  Literal value = read_by_program({*this}, what_is(*this), where).front();
  // Keep the value that was read if the node has no other storage. Its ops stay in the trace for backward().
  if (node.shard.is_null() && !node.sharding && !node.replaces) node.host = value;
  return value;
}

double Tensor::item(std::source_location where) const {
  in_context("item", {this}, where, [&] {
    require(element_count() == 1, "needs exactly one element, but {} has {}", type(), element_count());
  });
  const SyncScope place("sync::item");
  const Literal value = to_host(where);
  return is_float(dtype()) ? element_as_double(value, 0) : static_cast<double>(element_as_int(value, 0));
}

Literal Tensor::local_shard(std::source_location where) const {
  Node& node = *impl().node;
  if (node.has_data() || node.is_deferred()) tessera::trace().note_read(*this, node, where);
  if (node.is_deferred()) materialize({impl().node}, fmt::format("local_shard() of {}", what_is(*this)));
  if (node.is_under_way) await_execution();
  require(node.has_data(), "local_shard: the value has not been computed yet; call mark_step() first");
  return device_shard(node).to_literal();
}

std::string Tensor::str(std::source_location where) const {
  const SyncScope place("sync::print");
  const Literal value = to_host(where);
  return fmt::format("tensor({}, {}, device {})", value.summary(), type().str(), device().str());
}

// ---- backward -----------------------------------------------------------------------------------------------------------

namespace {

struct Wanted {
  std::shared_ptr<TensorImpl> variable;
  Id stored;
  const TensorImpl* used_as;
};

// Returns the variables that require gradients, with their last value in the trace. The order of first use is the same
// in every step. A variable that is also an argument of the traced function has one entry for each of the two.
std::vector<Wanted> wanted_variables(const Trace& current) {
  std::vector<Wanted> out;
  for (const auto& leaf : current.leaves()) {
    auto variable = leaf.variable.lock();
    if (!variable || !variable->requires_grad) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const Wanted& w) { return w.used_as == leaf.used_as; });
    if (same == out.end()) {
      out.push_back({std::move(variable), leaf.stored, leaf.used_as});
    } else {
      same->stored = leaf.stored;
    }
  }
  return out;
}

// Data that `loss` is computed from and that ops of an earlier step have computed; null if there is none.
const Node* earlier_result(const Trace& current, const Builder& builder, Id loss) {
  const Computation& traced = builder.computation();
  std::vector<bool> is_needed(static_cast<std::size_t>(loss) + 1, false);
  is_needed.back() = true;
  for (Id id = loss; id >= 0; --id) {
    if (!is_needed[static_cast<std::size_t>(id)]) continue;
    if (const int input = current.input_index(id); input >= 0)
      if (const Node& node = *at(current.inputs(), input); node.id >= 0) return &node;
    for (const Id operand : traced[id].operands) is_needed[static_cast<std::size_t>(operand)] = true;
  }
  return nullptr;
}

void check_has_variables(const std::vector<Wanted>& wanted, Trace& current, const Tensor& loss) {
  if (!wanted.empty()) return;
  const Node* earlier = earlier_result(current, current.builder(), loss.impl().node->id);
  require(
      earlier == nullptr,
      "{} was computed from no variable with requires_grad since the last mark_step(); {}, which it uses, was "
      "computed before mark_step() ended the step, so the ops that led to it are gone: call backward() before "
      "mark_step()",
      [&] { return what_is(loss); },
      [&] { return earlier->name.empty() ? earlier->type.str() : earlier->name + " " + earlier->type.str(); });
  fail("{} was computed from no variable with requires_grad", what_is(loss));
}

bool is_partial(const Tensor& gradient) {
  const auto& sharding = gradient.impl().node->sharding;
  return sharding && sharding->is_partial();
}

Value scaled_gradient(Value gradient, double scale) {
  return scale == 1 ? gradient : ops::multiply(gradient, trace().full(gradient.type(), scale));
}

// Lets a dummy replace the collective that reduces the gradient. Unshards mark theirs by themselves.
Value without_reduction(Builder& builder, Value gradient, const TensorImpl& variable,
                        const std::vector<Sharding>& rows) {
  if (!variable.gradient_rules.skips_reduction || rows.empty()) return gradient;
  if (gradient.instruction().frontend_attribute(kBarrierAttribute) == nullptr) {
    if (variable.unshard) return gradient;
    const auto replicated = Sharding::replicated(rows.front().mesh, gradient.type().ndim());
    gradient = ops::sharding_barrier(gradient, variable.node->sharding.value_or(replicated));
  }
  builder.set_notes(
      gradient, with_frontend_attribute(gradient.instruction().notes, kDummyAttribute, std::string(kDummyReduction)));
  return gradient;
}

// Adds the gradient to the result of earlier backward() calls.
void add_gradient(TensorImpl& variable, Value gradient, const std::vector<Sharding>& rows) {
  Trace& current = trace();
  Builder& builder = current.builder();
  const bool is_sharded = variable.gradient_rules.shards != UpdateShards::kState;
  const std::optional<Sharding> storage = is_sharded ? variable.gradient_storage : variable.node->sharding;
  const bool is_deferred = variable.gradient_rules.defers_reduction;
  const bool first = variable.grad.is_null();
  gradient = scaled_gradient(gradient, variable.gradient_rules.scale);
  const bool was_partial = !first && is_partial(variable.grad);
  const auto unreduced = is_deferred || was_partial ? unreduced_storage(variable, rows) : std::nullopt;
  const bool stays_partial = unreduced && unreduced->is_partial();
  const bool at_once = variable.gradient_rules.reduces_at_once;
  const auto reduce_at_once = [&] {
    const auto complete = at_once ? unreduced_storage(variable, rows) : std::nullopt;
    if (!complete || !complete->is_tiled()) return;
    gradient = lay_out_gradient(builder, gradient, complete->without_partial(), variable.name);
    gradient = without_reduction(builder, gradient, variable, rows);
  };
  const auto lay_out = [&](const std::optional<Sharding>& wanted) {
    if (wanted && at_once)
      gradient = ops::sharding_barrier(gradient, *wanted);
    else if (wanted && wanted != variable.node->sharding)
      gradient = lay_out_gradient(builder, gradient, *wanted, variable.name);
  };
  if (!stays_partial) reduce_at_once();
  lay_out(stays_partial ? unreduced : storage);
  if (!stays_partial) gradient = without_reduction(builder, gradient, variable, rows);
  std::shared_ptr<Node> old;
  if (!first) {
    old = variable.grad.impl().node;
    gradient = ops::add(current.stored(variable.grad), gradient);
  }
  const bool reduces = stays_partial && !is_deferred;
  if (reduces) {
    const Sharding reduced = storage.value_or(Sharding::replicated(unreduced->mesh, gradient.type().ndim()));
    reduce_at_once();
    gradient = at_once ? ops::sharding_barrier(gradient, reduced)
                       : lay_out_gradient(builder, gradient, reduced, variable.name);
    gradient = without_reduction(builder, gradient, variable, rows);
  }
  variable.grad = current.wrap(gradient, is_deferred && stays_partial ? unreduced : storage,
                               variable.name.empty() ? "grad" : "grad." + variable.name);
  if (old && !reduces) variable.grad.impl().node->replaces = old->has_data() ? old : old->replaces;
}

}  // namespace

void Tensor::backward(std::source_location where) const {
  Trace& current = tessera::trace();
  const Node& node = *impl().node;
  const auto wanted = in_context("backward", {this}, where, [&] {
    current.require_no_function("backward() is called");
    require(node.epoch == current.epoch() && node.id >= 0,
            "{} was computed before the last mark_step(), so the ops that led to it are gone; call backward() before "
            "mark_step()",
            [&] { return what_is(*this); });
    auto variables = wanted_variables(current);
    check_has_variables(variables, current, *this);
    return variables;
  });
  std::vector<Value> wrt;
  for (const auto& want : wanted) wrt.push_back(current.builder().value(want.stored));
  current.builder().default_notes = current.notes(where);
  const Id first = current.builder().computation().size();
  const auto values = in_context("backward", {this}, where,
                                 [&] { return gradients(current.builder(), current.builder().value(node.id), wrt); });
  const std::vector<Sharding> rows = row_shardings(current);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TensorImpl& variable = *wanted[i].variable;
    current.note_gradient(wanted[i].variable);
    if (variable.grad.is_null()) set_gradient_storage(variable, rows);
    add_gradient(variable, values[i], rows);
  }
  current.note_backward(first);
  const bool ends_step = std::any_of(wanted.begin(), wanted.end(),
                                     [](const Wanted& want) { return want.variable->gradient_rules.ends_step; });
  if (!ends_step || current.is_capturing()) return;
  const SyncScope place("sync::backward");
  mark_step(where);
}

}  // namespace tessera
