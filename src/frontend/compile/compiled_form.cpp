// SPDX-License-Identifier: Apache-2.0
// The first call of a compiled function traces it. In the trace each argument is a separate tensor, even if two
// arguments are the same tensor or an argument is also a variable that the function uses.
#include <algorithm>

#include "compile/compiled_form.h"
#include "execution/debug_report.h"
#include "sharding/choose_shardings.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

std::string name_of_input(const Node& node) { return node.name.empty() ? node.type.str() : node.name; }

// Restores variables, gradients and counters on the host to their state before the function ran.
void take_back(Trace::Capture& capture, std::uint64_t epoch) {
  std::for_each(capture.each_call.rbegin(), capture.each_call.rend(), [](const auto& each) {
    if (each.undo) each.undo();
  });
  if (trace().epoch() != epoch) return;  // a step has run
  std::for_each(capture.undo.rbegin(), capture.undo.rend(), [](const auto& undo) { undo(); });
  trace().clear(false);
}

void check_gradients_are_gone() {
  for (const auto& leaf : trace().leaves())
    if (const auto variable = leaf.variable.lock())
      require(variable->grad.is_null(),
              "compile: the gradient of {} outlives the function; call zero_grad() at the end of the function",
              variable->name);
}

// In the program, stored_tensor() is the value of the variable at each call.
Tensor value_at_call(const Tensor& stored) {
  const Node& node = *stored.impl().node;
  return node.has_data() ? trace().wrap(trace().stored(stored), node.sharding, stored.name()) : stored;
}

std::vector<Tensor> trace_function(const CompiledFunction::Function& function, const std::vector<Tensor>& stand_ins,
                                   Trace::Capture& capture, const std::source_location& where) {
  Trace& current = trace();
  current.clear(false);
  const std::uint64_t epoch = current.epoch();
  std::vector<Tensor> out;
  try {
    const Trace::CaptureScope scope(current, capture);
    out = function(stand_ins);
    require(
        current.epoch() == epoch,
        "compile: the function calls mark_step(); remove it, because each call of the compiled function ends the step");
    check_gradients_are_gone();
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i].is_null())
        in_context("compile", {}, where,
                   [&] { fail("result {} of the function is a null tensor, which has no value", i); });
    for (Tensor& tensor : out)
      if (tensor.impl().stands_for) tensor = value_at_call(tensor);
  } catch (...) {
    take_back(capture, epoch);
    throw;
  }
  return out;
}

int place_of(const TensorImpl* variable, const std::vector<Tensor>& stand_ins) {
  const auto found = std::find_if(stand_ins.begin(), stand_ins.end(),
                                  [&](const Tensor& tensor) { return &tensor.impl() == variable; });
  return found == stand_ins.end() ? -1 : static_cast<int>(found - stand_ins.begin());
}

}  // namespace

// The tensors that the function receives in place of its arguments. Gradients go to the caller's tensors.
class CompiledFunction::Form::StandIns {
 public:
  explicit StandIns(const std::vector<Tensor>& arguments) {
    for (const Tensor& argument : arguments) {
      auto made = std::make_shared<TensorImpl>(argument.impl());
      made->node = trace().copy_of(*argument.impl().node);
      made->grad = {};
      made->stands_for.reset();
      made->argument = argument.impl_pointer();
      nodes_.emplace_back(made->node.shared());
      tensors_.emplace_back(std::move(made));
    }
  }
  ~StandIns() {
    for (const Tensor& tensor : tensors_) tensor.impl().argument.reset();
  }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  // Returns the number of the argument whose value is `node`, or -1.
  [[nodiscard]] int place_of_value(const std::shared_ptr<Node>& node) const {
    const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& own) { return is_same(own, node); });
    return found == nodes_.end() ? -1 : static_cast<int>(found - nodes_.begin());
  }

 private:
  std::vector<Tensor> tensors_;
  // At the start of the trace; weak, so that they do not prevent memory from being taken over.
  std::vector<std::weak_ptr<Node>> nodes_;
};

std::vector<Tensor> CompiledFunction::Form::first_call(const Function& function, const std::vector<Tensor>& arguments,
                                                       const CompileOptions& options,
                                                       const std::source_location& where) {
  await_execution();
  world_ = session().world->identity();
  std::vector<bool> requires_grad;  // a copy, because the function may change it
  for (const Tensor& argument : arguments) {
    keys_.push_back({argument.type(), argument.sharding()});
    requires_grad.push_back(argument.requires_grad());
  }
  const StandIns stand_ins(arguments);
  Trace::Capture capture;
  capture.may_break = !options.full_graph;
  std::vector<Tensor> out = trace_function(function, stand_ins.tensors(), capture, where);
  reason_ = run_reason(RunReason::Kind::kMarkStep, where);
  reason_.counter = "sync::compile";
  if (!options.name.empty()) reason_.text.replace(0, std::string_view("mark_step").size(), options.name);
  StepResults results;
  try {
    results = pending_results();
    require(!results.nodes.empty() || !out.empty(),
            "compile: {} returns no tensor and assigns no variable; return the tensors that it computes",
            options.name.empty() ? "the function" : options.name);
    require(options.graphs == 1 || !capture.backward.empty(),
            "compile: graphs = 3 divides a step at backward(), which the function does not call");
    has_program_ = !results.nodes.empty();
    if (has_program_) extract(results, options.graphs == 1 ? BackwardOps{} : capture.backward);
    find_ties(stand_ins.tensors(), capture);
    for (std::size_t i = 0; i < arguments.size(); ++i) ties_.push_back(tie(arguments, i, requires_grad[i]));
    find_sources(stand_ins, capture);
    find_checks(stand_ins, capture);
    find_targets(results, stand_ins.tensors(), out, capture);
    count_step();
    if (has_program_) set_results(results, first_run());
  } catch (...) {
    take_back(capture, trace().epoch());
    throw;
  }
  each_call_ = std::move(capture.each_call);
  trace().clear(true);
  for (std::size_t k = 0; k < targets_.size(); ++k)
    for (const std::size_t i : targets_[k].arguments) at(arguments, i).impl().node = results.nodes[k];
  for (std::size_t k = 0; k < out.size(); ++k)
    if (returned_[k].argument >= 0) out[k] = at(arguments, returned_[k].argument);
  report_step();
  return out;
}

void CompiledFunction::Form::extract(const StepResults& results, const BackwardOps& backward) {
  extracted_ = extract_program(trace(), results.outputs, "step", backward);
  record_tracing(reason_);
  choose_shardings(extracted_, results, reason_);
  hash_ = extracted_.program.hash();
}

RunResult CompiledFunction::Form::first_run() {
  RunResult run = run_extracted({extracted_.program, std::exchange(extracted_.inputs, {})}, reason_);
  compiled_ = *session().cache.of(*session().world).find(hash_);
  return run;
}

// Finds the variables of the function for which it matters whether they are also arguments.
void CompiledFunction::Form::find_ties(const std::vector<Tensor>& stand_ins, const Trace::Capture& capture) {
  takes_gradients_ = capture.takes_gradients;
  reads_late_ = capture.reads_late;
  const auto add = [&](const std::weak_ptr<TensorImpl>& variable) {
    const auto same = [&](const auto& other) { return is_same(other, variable.lock()); };
    if (!variable.expired() && place_of(variable.lock().get(), stand_ins) < 0 &&
        std::none_of(tied_variables_.begin(), tied_variables_.end(), same))
      tied_variables_.push_back(variable);
  };
  for (const auto& variable : capture.assigned) {
    assigns_arguments_ = assigns_arguments_ || place_of(variable.lock().get(), stand_ins) >= 0;
    if (reads_late_) add(variable);
  }
  for (const auto& leaf : trace().leaves())
    if (takes_gradients_ && leaf.used_as == leaf.variable.lock().get()) add(leaf.variable);
  if (!assigns_arguments_) return;
  for (const auto& [node, use] : capture.variables) add(use.variable);
  for (const auto& variable : capture.assigned) add(variable);
}

void CompiledFunction::Form::find_sources(const StandIns& stand_ins, const Trace::Capture& capture) {
  for (const auto& node : extracted_.inputs) {
    InputSource source;
    source.sharding = storage_of(*node);
    const int argument = stand_ins.place_of_value(node);
    const auto variable = capture.variables.find(node.get());
    if (argument >= 0) {
      source.kind = InputSource::Kind::kArgument;
      source.argument = static_cast<std::size_t>(argument);
    } else if (node->refresh) {
      source.kind = InputSource::Kind::kRefreshed;
      source.node = node;
    } else if (variable != capture.variables.end() && !variable->second.variable.expired()) {
      source.kind = InputSource::Kind::kVariable;
      source.variable = variable->second.variable.lock();
    } else {
      require(node->host.has_value(), "compile: the function uses {}, which no tensor refers to any more; {}",
              name_of_input(*node),
              node->is_deferred() ? "if the function makes a module, keep this module for the later calls"
                                  : "is it a gradient of an earlier step?");
      source.node = node;
    }
    inputs_.push_back(std::move(source));
  }
  for (const auto& alias : extracted_.program.aliases) at(inputs_, alias.parameter).is_donated = true;
}

void CompiledFunction::Form::find_checks(const StandIns& stand_ins, const Trace::Capture& capture) {
  for (const auto& [weak, check] : capture.checks) {
    const auto node = weak.lock();
    if (!node) continue;
    DataCheck each{.argument = stand_ins.place_of_value(node), .variable = {}, .check = check};
    if (const auto used = capture.variables.find(node.get()); each.argument < 0 && used != capture.variables.end())
      each.variable = used->second.variable;
    if (each.argument >= 0 || !each.variable.expired()) checks_.push_back(std::move(each));
  }
}

namespace {

int result_of(const StepResults& results, const std::shared_ptr<Node>& node) {
  const auto found = std::find(results.nodes.begin(), results.nodes.end(), node);
  return found == results.nodes.end() ? -1 : static_cast<int>(found - results.nodes.begin());
}

}  // namespace

void CompiledFunction::Form::find_targets(const StepResults& results, const std::vector<Tensor>& stand_ins,
                                          const std::vector<Tensor>& out, const Trace::Capture& capture) {
  for (const auto& node : results.nodes) targets_.push_back({node->type, node->name, {}, {}, {}});
  std::vector<bool> is_taken(results.nodes.size(), false);
  for (const auto& assigned : capture.assigned) {
    const auto variable = assigned.lock();
    const int result = variable ? result_of(results, variable->node) : -1;
    if (result < 0) continue;
    is_taken[static_cast<std::size_t>(result)] = true;
    ResultTarget& target = at(targets_, result);
    const auto add = [](auto& holders, const auto& holder) {
      if (std::find(holders.begin(), holders.end(), holder) == holders.end()) holders.push_back(holder);
    };
    if (const int argument = place_of(variable.get(), stand_ins); argument >= 0)
      add(target.arguments, static_cast<std::size_t>(argument));
    else
      add(target.variables, variable);
  }
  find_returned(results, stand_ins, out, is_taken);
  for (std::size_t i = 0; i < results.nodes.size(); ++i)
    require(is_taken[i], "compile: {} outlives the function; return it or assign it to a variable",
            name_of_input(*results.nodes[i]));
}

void CompiledFunction::Form::find_returned(const StepResults& results, const std::vector<Tensor>& stand_ins,
                                           const std::vector<Tensor>& out, std::vector<bool>& is_taken) {
  for (const Tensor& tensor : out) {
    ReturnSource source{result_of(results, tensor.impl().node), place_of(&tensor.impl(), stand_ins), {}};
    if (source.result >= 0) is_taken[static_cast<std::size_t>(source.result)] = true;
    if (source.result < 0 && source.argument < 0) source.fixed = tensor;
    returned_.push_back(std::move(source));
  }
}

}  // namespace tessera
