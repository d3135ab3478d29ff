// SPDX-License-Identifier: Apache-2.0
// The program of a compiled function for arguments of given types and shardings.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "execution/execute.h"
#include "tessera/frontend/compile/compiled_function.h"

namespace tessera {

// Compares without locking the weak pointer. (The weak pointer keeps the address of an expired object from being used
// again.)
template <class A, class B>
bool is_same(const std::weak_ptr<A>& known, const std::shared_ptr<B>& object) {
  return !known.owner_before(object) && !object.owner_before(known);
}

struct CompiledFunction::Form {
  [[nodiscard]] bool fits(const std::vector<Tensor>& arguments) const;
  std::vector<Tensor> first_call(const Function& function, const std::vector<Tensor>& arguments,
                                 const CompileOptions& options, const std::source_location& where);
  std::vector<Tensor> call(const std::vector<Tensor>& arguments);

 private:
  // The type and sharding of an argument.
  struct ArgumentKey {
    Type type;
    std::optional<Sharding> sharding;
  };
  // The source of an input of the program at each call.
  struct InputSource {
    enum class Kind : std::uint8_t { kArgument, kVariable, kRefreshed, kFixed };
    Kind kind = Kind::kFixed;
    std::size_t argument = 0;
    std::shared_ptr<TensorImpl> variable;
    NodeHandle node;  // for kRefreshed and kFixed: the next call needs its value
    Sharding sharding;
    bool is_donated = false;
    std::weak_ptr<Node> known;  // its sharding has been checked
  };
  // The variables and arguments that receive a result.
  struct ResultTarget {
    Type type;
    std::string name;
    std::vector<std::shared_ptr<TensorImpl>> variables;
    std::vector<std::size_t> arguments;
    std::weak_ptr<Node> known;  // the node that the last call assigned
  };
  // The source of a returned tensor: a result of the program, an argument, or the tensor of the first call.
  struct ReturnSource {
    int result = -1;
    int argument = -1;
    Tensor fixed;
  };

  // A check of an argument or of a variable at each call.
  struct DataCheck {
    int argument = -1;
    std::weak_ptr<TensorImpl> variable;  // without an argument
    std::function<void(const Node&)> check;
  };

  class StandIns;
  static void count_step();
  RunResult first_run();
  void extract(const StepResults& results, const BackwardOps& backward);
  void find_checks(const StandIns& stand_ins, const Trace::Capture& capture);
  void run_checks(const std::vector<Tensor>& arguments) const;
  void find_ties(const std::vector<Tensor>& stand_ins, const Trace::Capture& capture);
  void find_sources(const StandIns& stand_ins, const Trace::Capture& capture);
  void find_targets(const StepResults& results, const std::vector<Tensor>& stand_ins, const std::vector<Tensor>& out,
                    const Trace::Capture& capture);
  void find_returned(const StepResults& results, const std::vector<Tensor>& stand_ins, const std::vector<Tensor>& out,
                     std::vector<bool>& is_taken);
  [[nodiscard]] int tie(const std::vector<Tensor>& arguments, std::size_t i, bool requires_grad) const;
  std::shared_ptr<Node> input_node(InputSource& source, const std::vector<Tensor>& arguments) const;
  std::vector<DeviceArray> run(const std::vector<Tensor>& arguments);
  RunArguments take_arguments();
  void give(std::size_t result, DeviceArray shard, const std::vector<Tensor>& arguments,
            std::vector<std::shared_ptr<Node>>& nodes);
  std::vector<Tensor> take_results(std::vector<DeviceArray> shards, const std::vector<Tensor>& arguments);

  std::weak_ptr<const void> world_;  // identifies the world
  std::vector<ArgumentKey> keys_;
  ExtractedProgram extracted_;  // its inputs are set only during a call
  bool has_program_ = false;    // false: the function returns only its arguments and tensors from outside
  std::size_t hash_ = 0;
  RunReason reason_;
  Session::Compiled compiled_;
  std::vector<InputSource> inputs_;
  std::vector<ResultTarget> targets_;
  std::vector<ReturnSource> returned_;
  std::vector<Trace::Capture::EachCall> each_call_;
  std::vector<DataCheck> checks_;

  // Arguments are values. It matters only if gradients flow to them or they are assigned whether two of them are the
  // same tensor, or one is a variable that the function uses. In this case the program fits only arguments with the
  // same ties.
  bool takes_gradients_ = false;
  bool assigns_arguments_ = false;
  bool reads_late_ = false;                                // an argument is read after an assignment
  std::vector<std::weak_ptr<TensorImpl>> tied_variables_;  // variables of the function
  std::vector<int> ties_;                                  // the result of tie() for each argument
};

}  // namespace tessera
