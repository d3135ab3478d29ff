// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/ema.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::optim {
namespace {

constexpr const char* kUpdatesName = "ema.updates";

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<Tensor> parameters, EmaOptions options)
    : parameters_(std::move(parameters)), options_(options), averages_("ema", parameters_, {}) {
  require(options.decay >= 0 && options.decay <= 1, "the decay of an average must be in [0, 1], got {}", options.decay);
  require(!parameters_.empty(), "an average needs at least one parameter");
}

// Of update number `*updates_`, where 1 is the first.
double ExponentialMovingAverage::decay() const {
  if (*updates_ <= 1) return 0;
  if (!options_.use_num_updates) return options_.decay;
  const auto count = static_cast<double>(*updates_);
  return std::min(options_.decay, (1 + count) / (10 + count));
}

void ExponentialMovingAverage::update(std::source_location where) {
  const TraceScope scope("ema", "");
  trace().builder().default_notes = trace().notes(where);
  trace().at_each_call([updates = updates_] { ++*updates; }, [updates = updates_] { --*updates; });
  const Tensor kept = Tensor::scalar(DType::kF64, [this] { return decay(); });
  for (int i = 0; i < isize(parameters_); ++i) {
    const Tensor& parameter = at(parameters_, i);
    averages_.place(i, parameter);
    const DType dtype = update_dtype(parameter);
    const Tensor factor = kept.to(dtype);
    const Tensor value = stored_tensor(parameter).to(dtype);
    averages_.write(i, averages_.read(i) * factor + value * (1.0 - factor), {});
  }
}

void ExponentialMovingAverage::swap(std::source_location /*where*/) {
  require(*updates_ > 0, "the averages have no values before the first update()");
  for (int i = 0; i < isize(parameters_); ++i) {
    Tensor& parameter = at(parameters_, i);
    require(parameter.dtype() == update_dtype(parameter),
            "{} is {}, and its average is {}: exchanging them would lose bits", parameter.name(), parameter.type(),
            averages_.read(i).type());
    const Tensor value = parameter.detach();
    parameter.assign(averages_.read(i));
    averages_.write(i, value, {});
  }
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict out;
  std::vector<NamedState> states;
  for (int i = 0; i < isize(parameters_); ++i) averages_.append_to(states, i);
  for (auto& state : states) out.add({std::move(state.name), std::move(state.tensor), {}});
  out.add_number(kUpdatesName, {.get = [updates = updates_] { return *updates; },
                                .set = [updates = updates_](std::int64_t count) { *updates = count; }});
  return out;
}

LoadStateResult ExponentialMovingAverage::load_state_dict(const StateDict& source, const LoadStateOptions& options) {
  return load_state(state_dict(), source, "the average", options);
}

}  // namespace tessera::optim
