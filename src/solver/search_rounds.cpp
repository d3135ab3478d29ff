// SPDX-License-Identifier: Apache-2.0
#include "search_rounds.h"

#include <algorithm>
#include <thread>

#include "exchange.h"

namespace tessera::solver {
namespace {

constexpr double kDualAlone = 0.12;   // of the budget: prices and messages, before the first search
constexpr double kDualBeside = 0.35;  // until then they go on beside the first search
constexpr int kSettled = 40;          // passes at the best prices before candidates are read
constexpr int kRoundsToJoin = 6;
constexpr std::int64_t kRoundWork = 300'000'000;  // of each search
constexpr double kLeastUsagesShare = 0.2;         // of the budget, beyond it: if the searches found nothing feasible
constexpr double kExchangeShare = 0.2;            // of the budget, beyond it
constexpr double kNeverShare = 0.003;             // of the bound: the first penalty of a forbidden pair

}  // namespace

SearchRounds::SearchRounds(const Model& model, const Budget& budget, const Clock& clock, std::int64_t work)
    : model_(model),
      budget_(budget),
      clock_(clock),
      dual_(model),
      work_(work),
      round_work_(std::clamp<std::int64_t>(budget.work / 60, 1, kRoundWork)) {}

double SearchRounds::progress() const {
  const double by_work = static_cast<double>(work_) / std::max(1.0, static_cast<double>(budget_.work));
  const double by_time = budget_.seconds ? clock_.seconds() / std::max(1e-9, *budget_.seconds) : 0;
  return std::max(by_work, by_time);
}

bool SearchRounds::reaches_cutoff() const {
  return budget_.cutoff && dual_.bound() >= static_cast<double>(*budget_.cutoff);
}

bool SearchRounds::is_proven() const {
  return std::any_of(searches_.begin(), searches_.end(),
                     [&](const auto& search) { return search->best() && search->best_cost() - dual_.bound() < 0.5; });
}

// Steps of the dual problem for an amount of work, or until the bound no longer rises.
std::int64_t SearchRounds::dual_steps(std::int64_t work, double until) {
  std::int64_t done = 0;
  while (done < work && !dual_.has_converged() && !is_fathomed()) {
    dual_.step();
    done += dual_.work();
    if (budget_.seconds && clock_.seconds() >= until * *budget_.seconds) break;
  }
  return done;
}

std::int64_t SearchRounds::search_steps(LocalSearch& search, std::int64_t work) {
  std::int64_t done = 0;
  while (done < work) {
    done += search.step();
    if (budget_.seconds && clock_.seconds() >= *budget_.seconds) break;
  }
  return done;
}

void SearchRounds::together(const std::function<std::int64_t()>& first, const std::function<std::int64_t()>& second) {
  std::int64_t other = 0;
  if (budget_.threads > 1) {
    std::thread thread([&] { other = second(); });
    work_ += first();
    thread.join();
  } else {
    work_ += first();
    other = second();
  }
  work_ += other;
}

// The two assignments of least cost with prices that the messages suggest while they settle.
std::vector<Choices> SearchRounds::candidates() {
  std::vector<std::pair<double, Choices>> found;
  for (int i = 0; i < kSettled; ++i) {
    dual_.settle();
    work_ += dual_.work();
    const Assignment read(model_, dual_.choices());
    double value = read.score.cost + kNeverShare * dual_.scale() * read.score.forbidden;
    const std::vector<double>& prices = dual_.best_prices().at();
    for (std::size_t t = 0; t < prices.size(); ++t) value += prices[t] * (read.use[t] - model_.room[t]);
    found.emplace_back(value, dual_.choices());
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Choices> out = {std::move(found.front().second)};
  for (auto& [value, choices] : found)
    if (!choices.empty() && choices != out.front() && out.size() < 2) out.push_back(std::move(choices));
  out.resize(2, out.front());
  return out;
}

// Replaces the searches of the last prices: the first one stays if there is one, with the new prices.
void SearchRounds::start_searches() {
  std::vector<Choices> starts = candidates();
  const std::uint64_t seed = searches_.size() + 1;
  const auto make = [&](std::size_t i) {
    return std::make_unique<LocalSearch>(model_, dual_.best_prices(), kNeverShare * dual_.scale(), std::move(starts[i]),
                                         seed + i);
  };
  if (searches_.empty()) {
    searches_.push_back(make(0));
    work_ += searches_[0]->descend();
    return;
  }
  searches_.push_back(make(0));
  std::unique_ptr<LocalSearch> third = make(1);
  together([&] { return searches_[1]->descend(); }, [&] { return third->descend(); });
  if (third->current_value() < searches_[1]->current_value()) searches_[1] = std::move(third);
  searches_[0]->set_prices(dual_.best_prices());
}

void SearchRounds::join() {
  const bool first_is_better = searches_[0]->current_value() <= searches_[1]->current_value();
  LocalSearch& better = *searches_[first_is_better ? 0 : 1];
  LocalSearch& worse = *searches_[first_is_better ? 1 : 0];
  worse.join(better.best() ? *better.best() : better.now().choices);
}

// Searches from the assignment that needs the least memory: it is feasible unless a pair of its choices is forbidden.
void SearchRounds::search_from_least_usages() {
  Choices least;
  for (int v = 0; v < model_.count(); ++v) {
    const std::span<const double> usages = model_.usages_of(v);
    least.push_back(static_cast<int>(std::min_element(usages.begin(), usages.end()) - usages.begin()));
  }
  searches_.push_back(std::make_unique<LocalSearch>(model_, dual_.best_prices(), kNeverShare * dual_.scale(),
                                                    std::move(least), searches_.size() + 1));
  const auto work = static_cast<std::int64_t>(kLeastUsagesShare * static_cast<double>(budget_.work));
  work_ += search_steps(*searches_.back(), work);
}

void SearchRounds::run() {
  run_rounds();
  if (is_fathomed()) return;
  if (!best_of_searches()) search_from_least_usages();
  best_ = best_of_searches();
  const auto work = static_cast<std::int64_t>(kExchangeShare * static_cast<double>(budget_.work));
  if (best_ && !is_proven() && !budget_.seconds) work_ += Exchange(model_).improve(*best_, work);
}

void SearchRounds::run_rounds() {
  while (progress() < kDualAlone && !dual_.has_converged() && !is_fathomed())
    work_ += dual_steps(round_work_, kDualAlone);
  if (is_fathomed()) return;
  start_searches();
  while (progress() < kDualBeside && !dual_.has_converged() && !is_fathomed() && !is_proven())
    together([&] { return search_steps(*searches_[0], round_work_); },
             [&] { return dual_steps(round_work_, kDualBeside); });
  if (is_fathomed() || is_proven()) return;
  if (progress() < 1) start_searches();
  for (int round = 1; progress() < 1 && !is_proven(); ++round) {
    together([&] { return search_steps(*searches_[0], round_work_); },
             [&] { return search_steps(*searches_[1], round_work_); });
    if (round % kRoundsToJoin == 0) join();
  }
}

std::optional<Choices> SearchRounds::best_of_searches() const {
  const LocalSearch* best = nullptr;
  for (const auto& search : searches_)
    if (search->best() && (best == nullptr || search->best_cost() < best->best_cost())) best = search.get();
  return best == nullptr ? std::nullopt : best->best();
}

}  // namespace tessera::solver
