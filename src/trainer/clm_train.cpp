// SPDX-License-Identifier: Apache-2.0
// The training loop.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/collectives/cpu_share.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/schedule.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/progress.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Floating-point operations per second that this rank reaches on a matrix product while all ranks try: MFU is of the best, times what
// part of a processor the rank has.
struct MeasuredPeak {
  double best = 0;
  double median = 0;  // far below the best where other work disturbs
  int runs = 0;
};

MeasuredPeak measured_peak() {
  constexpr std::int64_t kSize = 384;
  constexpr std::size_t kRuns = 16;
  const Tensor a = Tensor::from<float>({kSize, kSize}, std::vector<float>(kSize * kSize, 0.5F));
  std::vector<double> rates;
  for (std::size_t run = 0; run <= kRuns; ++run) {
    const Tensor product = matmul(a, a);
    const auto start = Clock::now();
    mark_step({.wait = true});
    rates.push_back(2.0 * kSize * kSize * kSize / seconds_since(start));
  }
  rates.erase(rates.begin());  // it compiled
  const double share = cpu_share(*joined_world());
  for (double& rate : rates) rate *= share;
  std::sort(rates.begin(), rates.end());
  return {rates.back(), rates[kRuns / 2], static_cast<int>(kRuns)};
}

std::string peak_line(const MeasuredPeak& peak) {
  constexpr double kGiga = 1e9;
  constexpr double kSteady = 0.8;
  std::string out = fmt::format(
      "peak       {:.1f} GFLOP/s of rank 0, the best of {} products before the first step: MFU is of this\n",
      peak.best / kGiga, peak.runs);
  if (peak.median < kSteady * peak.best)
    out +=
        fmt::format("note       their median was {:.1f}: the cores are busy with other work, so that MFU says little\n",
                    peak.median / kGiga);
  return out;
}

// What this rank has spent in collectives, waits included, that nothing hid.
double exposed_communication_seconds() {
  constexpr double kNanosecond = 1e-9;
  const auto data = metrics().metric_data("ExposedCommunicationTime");
  return data ? data->accumulator * kNanosecond : 0;
}

class Run {
 public:
  explicit Run(const TrainingArguments& arguments)
      : arguments_(arguments),
        is_master_(RankContext::current().rank() == 0),
        peak_(measured_peak()),
        setup_(make_clm_model(arguments)),
        data_(load_clm_data(arguments, setup_.block_size)),
        rows_(arguments.micro_batch_rows(setup_.data_shards)),
        loader_(*data_.train, {.global_batch_size = rows_,
                               .seed = static_cast<std::uint64_t>(arguments.data_seed.value_or(arguments.seed)),
                               .shuffle = true,
                               .drop_last = arguments.dataloader_drop_last}),
        steps_(arguments.total_steps(loader_.order().batches_per_epoch())),
        schedule_(optim::schedule_from_name(arguments.lr_scheduler_type), arguments.learning_rate,
                  arguments.warmup_count(steps_), steps_),
        bar_(stderr, arguments.disable_tqdm || !is_master_ ? 0 : 50) {
    const int vocabulary = data_.tokenizer->vocab_size();
    const std::int64_t model_vocabulary = setup_.model->config().vocab_size;
    require(vocabulary <= model_vocabulary,
            "the tokenizer {} has {} tokens, but the model's vocab_size is {}; make it {} or more in {}",
            data_.tokenizer->name(), vocabulary, model_vocabulary, vocabulary, arguments.config_name);
    state_.max_steps = steps_;
    state_.num_train_epochs = arguments.num_train_epochs;
    state_.logging_steps = arguments.logging_steps;
    state_.train_batch_size = rows_;
  }

  void execute() {
    say(banner(arguments_, setup_));
    say(peak_line(peak_));
    say(sharding_report(setup_));
    if (arguments_.do_train) train();
    if (arguments_.do_eval && data_.validation) evaluate();
    if (arguments_.sample_tokens > 0) sample();
    if (is_master_ && !arguments_.output_dir.empty()) state_.save(arguments_.output_dir);
  }

 private:
  void say(const std::string& text) const {
    if (!is_master_) return;
    std::fputs((text + "\n").c_str(), stdout);
    std::fflush(stdout);
  }

  struct StepResult {
    double loss = 0;
    double gradient_norm = 0;
  };

  // The loss of a micro-batch's share in the mean over all labels of the update.
  Tensor share_of_loss(const data::TokenBatch& batch, double labels) {
    const Tensor tokens = place_rows(setup_, Tensor::from<std::int32_t>({rows_, batch.columns}, batch.tokens));
    const Tensor targets = place_rows(setup_, Tensor::from<std::int32_t>({rows_, batch.columns}, batch.labels));
    const Tensor sum = setup_.model->loss_parts(tokens, targets).sum;
    return sum / Tensor::scalar(sum.dtype(), labels);
  }

  StepResult step() {
    std::vector<data::TokenBatch> batches;
    double labels = 0;
    for (std::int64_t i = 0; i < arguments_.gradient_accumulation_steps; ++i) {
      batches.push_back(loader_.next());
      labels += static_cast<double>(batches.back().real_rows * (batches.back().columns - 1));
    }
    schedule_.apply(*setup_.optimizer);
    std::vector<Tensor> losses;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      std::optional<MicroBatch> part;
      if (batches.size() > 1) part.emplace(static_cast<std::int64_t>(i) * rows_);
      losses.push_back(share_of_loss(batches[i], labels));
      losses.back().backward();
      if (i + 1 < batches.size()) mark_step();
    }
    const auto parameters = setup_.model->parameters();
    const Tensor norm = arguments_.max_grad_norm > 0 ? optim::clip_grad_norm(parameters, arguments_.max_grad_norm)
                                                     : optim::global_norm(parameters);
    setup_.optimizer->step();
    setup_.optimizer->zero_grad();
    mark_step();
    StepResult out;
    for (const auto& loss : losses) out.loss += loss.item();
    out.gradient_norm = norm.item();
    require(std::isfinite(out.loss), "the loss is {} at step {}", out.loss, setup_.optimizer->step_count());
    return out;
  }

  void train() {
    const auto tokens_per_step =
        static_cast<double>(rows_ * arguments_.gradient_accumulation_steps * setup_.block_size);
    const double flops_per_step = training_flops(tokens_per_step, static_cast<double>(setup_.model->parameter_count()));
    const auto start = Clock::now();
    auto window_start = start;
    double exposed_before = exposed_communication_seconds();
    double window_loss = 0;
    std::int64_t window_steps = 0;
    for (std::int64_t n = 1; n <= steps_; ++n) {
      const double rate = schedule_.rate(n - 1);
      const auto step_start = Clock::now();
      const StepResult result = step();
      if (n == 1) {
        say(collective_report(compiled_programs().back().notes));
        window_start = step_start;
      }
      window_loss += result.loss;
      ++window_steps;
      state_.total_flos += flops_per_step;
      const double speed = tokens_per_step / seconds_since(step_start);
      const double utilization =
          model_flops_utilization(flops_per_step, seconds_since(step_start), job_info().ranks, peak_.best);
      if (is_master_ && !arguments_.disable_tqdm)
        bar_.update({n, steps_, seconds_since(start), result.loss, speed, utilization});
      const bool is_due = n % arguments_.logging_steps == 0 || n == steps_ || (n == 1 && arguments_.logging_first_step);
      if (!is_due) continue;
      const double seconds = seconds_since(window_start);
      const auto steps = static_cast<double>(window_steps);
      log({.step = n,
           .epoch = loader_.order().epochs(),
           .loss = window_loss / steps,
           .learning_rate = rate,
           .grad_norm = result.gradient_norm,
           .tokens_per_second = tokens_per_step * steps / seconds,
           .mfu = model_flops_utilization(flops_per_step * steps, seconds, job_info().ranks, peak_.best),
           .exposed_communication_seconds = (exposed_communication_seconds() - exposed_before) / steps});
      exposed_before = exposed_communication_seconds();
      window_start = Clock::now();
      window_loss = 0;
      window_steps = 0;
    }
  }

  // Where there is somebody to communicate with.
  static std::string exposed_text(const LogEntry& entry) {
    if (job_info().ranks == 1) return "";
    return fmt::format("  exposed_communication_seconds {:.3g}", *entry.exposed_communication_seconds);
  }

  void log(const LogEntry& entry) {
    if (is_master_)
      bar_.print(
          fmt::format("step {:>6}  loss {:.4f}  learning_rate {:.3g}  grad_norm {:.3f}  {} tokens/s  MFU {:.1f}%{}",
                      entry.step, *entry.loss, *entry.learning_rate, *entry.grad_norm,
                      short_number(*entry.tokens_per_second), 100 * *entry.mfu, exposed_text(entry)));
    state_.log_history.push_back(entry);
  }

  void evaluate() {
    bar_.finish();
    const Evaluation result =
        evaluate_clm(setup_, data_, arguments_.eval_batch_rows(setup_.data_shards),
                     arguments_.max_eval_samples.value_or(data_.validation->size()), showing("held out", "samples"));
    bar_.erase();
    say(fmt::format("held out: loss {:.4f} nats, perplexity {:.3f}, {:.3f} bits per byte over {} tokens", result.loss,
                    std::exp(result.loss), result.bits_per_byte, result.tokens));
    if (data_.is_king_james)
      say("baselines on this text, bits per byte: byte n-grams n=1 4.369, n=3 2.696, n=6 1.910; xz -9e 1.749\n"
          "a 0.81 M-parameter character GPT in PyTorch: 2.080, 1.821, 1.616 nats after 500, 1000, 2000 steps");
    state_.log_history.push_back(
        {.step = setup_.optimizer->step_count(), .epoch = loader_.order().epochs(), .eval_loss = result.loss});
  }

  // Nothing where there is no bar.
  OnProgress showing(std::string what, std::string unit) {
    if (!is_master_ || arguments_.disable_tqdm) return {};
    return [this, what = std::move(what), unit = std::move(unit)](std::int64_t done, std::int64_t total) {
      bar_.status(fmt::format("{}: {} of {} {}", what, done, total, unit));
    };
  }

  void sample() {
    const std::string text = sample_text(setup_, *data_.tokenizer, arguments_.sample_prompt, arguments_.sample_tokens,
                                         static_cast<std::uint64_t>(arguments_.seed), showing("sample", "tokens"));
    bar_.erase();
    say("sample:\n" + printable(text));
  }

  const TrainingArguments& arguments_;
  bool is_master_;
  MeasuredPeak peak_;
  ClmModel setup_;
  ClmData data_;
  std::int64_t rows_;
  data::TextLoader loader_;
  std::int64_t steps_;
  optim::Schedule schedule_;
  ProgressBar bar_;
  TrainerState state_;
};

// Before the training, not behind it.
void check_output(const TrainingArguments& arguments) {
  if (arguments.output_dir.empty()) return;
  const std::string state = arguments.output_dir + "/trainer_state.json";
  require(arguments.overwrite_output_dir || !std::filesystem::exists(state),
          "{} already holds a run; give --overwrite_output_dir to write over it", arguments.output_dir);
  if (RankContext::current().rank() == 0) make_folder(arguments.output_dir);
}

// The files that every rank reads.
std::vector<std::string> files_of(const TrainingArguments& arguments) {
  std::vector<std::string> out = {arguments.config_name, arguments.fsdp_config};
  if (arguments.dry_run) return out;
  out.push_back(arguments.train_file);
  out.push_back(arguments.validation_file);
  const std::string& tokenizer = arguments.tokenizer_name;
  if (tokenizer != "bytes" && !tokenizer.starts_with("bpe:") && !std::filesystem::is_directory(tokenizer))
    out.push_back(tokenizer);
  return out;
}

}  // namespace

int run_clm(const TrainingArguments& arguments) {
  check_files_on_all_ranks(files_of(arguments));
  if (arguments.dry_run) return dry_run_clm(arguments);
  check_output(arguments);
  (void)mesh_of(arguments);  // what is cheap to find wrong is found before the processor is measured
  (void)nn::GPT2Config::from_file(arguments.config_name);
  Run(arguments).execute();
  return 0;
}

}  // namespace tessera::trainer
