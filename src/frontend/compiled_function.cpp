// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/compiled_function.h"

#include <algorithm>

#include "debug_report.h"
#include "execute.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics.h"

namespace tessera {
namespace {

// Where an input of the program comes from at each call.
struct InputSource {
  enum class Kind : std::uint8_t { kArgument, kVariable, kRefreshed, kFixed };
  Kind kind = Kind::kFixed;
  std::size_t argument = 0;
  std::shared_ptr<TensorImpl> variable;
  std::shared_ptr<Node> node;  // refreshed, fixed
  Sharding sharding;
  bool is_donated = false;
  std::weak_ptr<Node> known;  // lies as it must: not looked at again
};

// Who is given a result.
struct ResultTarget {
  Type type;
  std::string name;
  std::vector<std::shared_ptr<TensorImpl>> variables;
  std::weak_ptr<Node> known;  // as the last call left it
};

// Costs no look at the node. (A weak pointer keeps the address from being used again.)
bool is_same(const std::weak_ptr<Node>& known, const std::shared_ptr<Node>& node) {
  return !known.owner_before(node) && !node.owner_before(known);
}

// Where a returned tensor comes from: a result of the program, an argument, or the tensor of the first call.
struct ReturnSource {
  int result = -1;
  int argument = -1;
  Tensor fixed;
};

// Of an argument as it was given.
struct ArgumentKey {
  Type type;
  std::optional<Sharding> sharding;
};

std::string name_of(const Node& node) { return node.name.empty() ? node.type.str() : node.name; }

// What was recorded outside of the function happens before it; it is traced on its own.
void run_what_is_recorded(const std::source_location& where) {
  if (!pending_results().nodes.empty()) mark_step(where);
}

std::vector<Tensor> trace_function(const CompiledFunction::Function& function, const std::vector<Tensor>& arguments,
                                   Trace::Capture& capture) {
  Trace& current = trace();
  current.clear(false);
  const std::uint64_t epoch = current.epoch();
  const std::int64_t reads = session().counters.forced_reads;
  const Trace::CaptureScope scope(current, capture);
  std::vector<Tensor> out = function(arguments);
  require(current.epoch() == epoch, "compile: the function ends the step; each call does, so leave mark_step() out");
  require(session().counters.forced_reads == reads,
          "compile: the function reads a value that it computes; return the tensor and read it behind the call");
  for (const auto& leaf : current.leaves())
    if (const auto variable = leaf.variable.lock())
      require(variable->grad.is_null(),
              "compile: the gradient of {} outlives the function; call zero_grad() at its end", variable->name);
  return out;
}

}  // namespace

struct CompiledFunction::Form {
  std::vector<ArgumentKey> keys;
  Cut cut;  // its inputs are there during a call only
  std::size_t hash = 0;
  RunReason reason;
  Session::Compiled compiled;
  std::vector<InputSource> inputs;
  std::vector<ResultTarget> targets;
  std::vector<ReturnSource> returned;
  std::vector<std::function<void()>> each_call;

  [[nodiscard]] bool fits(const std::vector<Tensor>& arguments) const;
  std::vector<Tensor> first_call(const Function& function, const std::vector<Tensor>& arguments,
                                 const std::source_location& where);
  std::vector<Tensor> call(const std::vector<Tensor>& arguments);

 private:
  void find_sources(const std::vector<Tensor>& arguments, const Trace::Capture& capture);
  void find_targets(const StepResults& results, const std::vector<Tensor>& arguments, const std::vector<Tensor>& out,
                    const Trace::Capture& capture);
  std::shared_ptr<Node> input_node(InputSource& source, const std::vector<Tensor>& arguments) const;
  std::vector<DeviceArray> take_arguments();
  void give(std::size_t result, DeviceArray shard, std::vector<std::shared_ptr<Node>>& nodes);
  std::vector<Tensor> take_results(std::vector<DeviceArray> shards, const std::vector<Tensor>& arguments);
};

bool CompiledFunction::Form::fits(const std::vector<Tensor>& arguments) const {
  return std::equal(keys.begin(), keys.end(), arguments.begin(), arguments.end(),
                    [](const ArgumentKey& key, const Tensor& argument) {
                      const Node& node = *argument.impl().node;
                      return key.type == node.type && key.sharding == node.sharding;
                    });
}

// ---- the first call -------------------------------------------------------------------------------------------------------

std::vector<Tensor> CompiledFunction::Form::first_call(const Function& function, const std::vector<Tensor>& arguments,
                                                       const std::source_location& where) {
  for (const Tensor& argument : arguments) keys.push_back({argument.type(), argument.sharding()});
  Trace::Capture capture;
  std::vector<Tensor> out = trace_function(function, arguments, capture);
  const StepResults results = pending_results();
  require(!results.nodes.empty(), "compile: the function computes nothing that it returns or assigns");
  cut = cut_program(trace(), results.outputs, "step");
  reason = run_reason(RunReason::Kind::kMarkStep, where);
  hash = cut.program.hash();
  find_sources(arguments, capture);
  find_targets(results, arguments, out, capture);
  each_call = std::move(capture.each_call);
  ++session().counters.mark_steps;
  metrics().count("MarkStep");
  const RunResult run = run_cut({cut.program, std::exchange(cut.inputs, {})}, reason);
  set_results(results, run);
  compiled = session().cache.at(hash);
  trace().clear(true);
  report_step();
  return out;
}

void CompiledFunction::Form::find_sources(const std::vector<Tensor>& arguments, const Trace::Capture& capture) {
  for (const auto& node : cut.inputs) {
    InputSource source;
    source.sharding = storage_of(*node);
    const auto argument = std::find_if(arguments.begin(), arguments.end(),
                                       [&](const Tensor& tensor) { return tensor.impl().node == node; });
    const auto variable = capture.variables.find(node.get());
    if (argument != arguments.end()) {
      source.kind = InputSource::Kind::kArgument;
      source.argument = static_cast<std::size_t>(argument - arguments.begin());
    } else if (node->refresh) {
      source.kind = InputSource::Kind::kRefreshed;
      source.node = node;
    } else if (variable != capture.variables.end() && !variable->second.expired()) {
      source.kind = InputSource::Kind::kVariable;
      source.variable = variable->second.lock();
    } else {
      require(node->host.has_value(),
              "compile: the function uses {}, which nothing holds any more; a gradient of an earlier step?",
              name_of(*node));
      source.node = node;
    }
    inputs.push_back(std::move(source));
  }
  for (const auto& alias : cut.program.aliases) at(inputs, alias.parameter).is_donated = true;
}

void CompiledFunction::Form::find_targets(const StepResults& results, const std::vector<Tensor>& arguments,
                                          const std::vector<Tensor>& out, const Trace::Capture& capture) {
  for (const auto& node : results.nodes) targets.push_back({node->type, node->name, {}, {}});
  std::vector<bool> is_taken(results.nodes.size(), false);
  const auto result_of = [&](const std::shared_ptr<Node>& node) {
    const auto found = std::find(results.nodes.begin(), results.nodes.end(), node);
    return found == results.nodes.end() ? -1 : static_cast<int>(found - results.nodes.begin());
  };
  for (const auto& variable : capture.assigned) {
    const int result = result_of(variable->node);
    if (result < 0) continue;
    auto& holders = at(targets, result).variables;
    if (std::find(holders.begin(), holders.end(), variable) == holders.end()) holders.push_back(variable);
    is_taken[static_cast<std::size_t>(result)] = true;
  }
  for (const Tensor& tensor : out) {
    const auto same = [&](const Tensor& argument) { return same_variable(argument, tensor); };
    const auto argument = std::find_if(arguments.begin(), arguments.end(), same);
    ReturnSource source{result_of(tensor.impl().node), -1, {}};
    if (source.result >= 0) {
      is_taken[static_cast<std::size_t>(source.result)] = true;
    } else if (argument != arguments.end()) {
      source.argument = static_cast<int>(argument - arguments.begin());
    } else {
      source.fixed = tensor;
    }
    returned.push_back(std::move(source));
  }
  for (std::size_t i = 0; i < results.nodes.size(); ++i)
    require(is_taken[i], "compile: {} outlives the function, which neither returns nor assigns it",
            name_of(*results.nodes[i]));
}

// ---- later calls ----------------------------------------------------------------------------------------------------------

std::shared_ptr<Node> CompiledFunction::Form::input_node(InputSource& source,
                                                         const std::vector<Tensor>& arguments) const {
  if (source.kind == InputSource::Kind::kFixed) return source.node;
  if (source.kind == InputSource::Kind::kRefreshed) {
    source.node->host = source.node->refresh();
    source.node->shard.reset();
    source.node->is_given = true;
    return source.node;
  }
  const bool is_argument = source.kind == InputSource::Kind::kArgument;
  const auto& node = is_argument ? arguments[source.argument].impl().node : source.variable->node;
  if (is_same(source.known, node)) return node;
  if (is_argument && !node->sharding && !source.sharding.is_replicated()) {  // marked when the function was traced
    if (!node->host) node->host = node->shard.to_literal();
    node->shard.reset();
    node->sharding = source.sharding;
  }
  const bool lies_so = node->sharding ? *node->sharding == source.sharding : source.sharding.is_replicated();
  require(lies_so, "compile: {} lies otherwise than when the function was traced", [&] { return name_of(*node); });
  if (!is_argument) source.known = node;
  return node;
}

std::vector<DeviceArray> CompiledFunction::Form::take_arguments() {
  std::vector<DeviceArray> out;
  out.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Node& node = *cut.inputs[i];
    constexpr long kOwners = 2;  // the variable and the cut; who else holds the value keeps it
    const bool gives_up = inputs[i].is_donated && cut.inputs[i].use_count() <= kOwners;
    if (node.shard.is_null()) (void)device_shard(node);
    out.push_back(gives_up ? std::move(node.shard) : node.shard);
    if (gives_up) node.shard = DeviceArray();
  }
  return out;
}

// A result that several variables were given is one value to them all.
void CompiledFunction::Form::give(std::size_t result, DeviceArray shard, std::vector<std::shared_ptr<Node>>& nodes) {
  ResultTarget& target = targets[result];
  if (target.variables.size() == 1) {
    const auto& own = target.variables.front()->node;
    if (own.use_count() == 1 && is_same(target.known, own)) {
      own->shard = std::move(shard);
      own->host.reset();
      return;
    }
  }
  auto& node = nodes[result] = trace().make_node(target.type, target.name);
  node->shard = std::move(shard);
  node->sharding = compiled.results[result];
  for (const auto& variable : target.variables) variable->node = node;
  target.known = node;
}

std::vector<Tensor> CompiledFunction::Form::take_results(std::vector<DeviceArray> shards,
                                                         const std::vector<Tensor>& arguments) {
  std::vector<std::shared_ptr<Node>> nodes(shards.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) give(i, std::move(shards[i]), nodes);
  std::vector<Tensor> out;
  for (const ReturnSource& source : returned) {
    if (source.result < 0) {
      out.push_back(source.argument < 0 ? source.fixed : at(arguments, source.argument));
      continue;
    }
    const ResultTarget& target = at(targets, source.result);
    const auto& node = at(nodes, source.result);
    auto made = std::make_shared<TensorImpl>();
    made->node = node ? node : target.variables.front()->node;
    made->name = target.name;
    out.emplace_back(std::move(made));
  }
  return out;
}

std::vector<Tensor> CompiledFunction::Form::call(const std::vector<Tensor>& arguments) {
  await_execution();
  for (const auto& action : each_call) action();
  for (InputSource& source : inputs) cut.inputs.push_back(input_node(source, arguments));
  materialize(cut.inputs);
  metrics().count("MarkStep");
  metrics().count("CachedCompile");
  ++session().counters.mark_steps;
  ++session().counters.cached;
  begin_run(cut, hash, reason);
  std::vector<DeviceArray> taken = take_arguments();
  cut.inputs.clear();
  std::vector<Tensor> out =
      take_results(finish_run(cut.program, *compiled.executable, std::move(taken), reason), arguments);
  trace().next_step();
  report_step();
  return out;
}

// ---- the function ---------------------------------------------------------------------------------------------------------

CompiledFunction::CompiledFunction(Function function) : function_(std::move(function)) {
  require(function_ != nullptr, "compile: there is no function");
}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

std::vector<Tensor> CompiledFunction::operator()(const std::vector<Tensor>& arguments, std::source_location where) {
  run_what_is_recorded(where);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    require(arguments[i].is_materialized(),
            "compile: argument {} has no value: a variable that nobody used, or recorded ops", i);
  for (const auto& form : forms_)
    if (form->fits(arguments)) return form->call(arguments);
  auto form = std::make_unique<Form>();
  std::vector<Tensor> out = form->first_call(function_, arguments, where);
  forms_.push_back(std::move(form));
  return out;
}

}  // namespace tessera
