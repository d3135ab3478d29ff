// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>

#include "mpi/deadline.h"
#include "mpi/fabric.h"
#include "mpi/failure_hash.h"
#include "mpi/launcher.h"
#include "tessera/base/command_line.h"
#include "tessera/base/cpus.h"
#include "tessera/base/text.h"
#include "tessera/collectives/communication_turn.h"
#include "tessera/collectives/virtual_ranks.h"
#include "waiting.h"

namespace tessera {

using collectives::MpiFabric;
using collectives::PeerFailed;
using collectives::RankState;

struct Communicator::State {
  State(int rank, int size) : context(rank, size) {}
  RankContext context;
  RankContext* previous_context = nullptr;
  std::thread::id thread;
  std::shared_ptr<MpiFabric> fabric;  // null in a world of one rank
  std::shared_ptr<ProcessGroup> group;
  std::vector<std::string> hosts;
  std::vector<int> nodes;
  int exceptions_at_start = 0;
  bool finalized = false;
};

namespace {

constexpr auto kTimeForPeersToFail = std::chrono::milliseconds(1000);
constexpr auto kTimeForPeersToSpeak = std::chrono::milliseconds(150);
constexpr auto kTimeBetweenAborts = std::chrono::milliseconds(25);
constexpr auto kTimeToBeKilled = std::chrono::seconds(5);

// MPI exists once per process, and so does the fabric that an uncaught exception must end.
std::atomic<MpiFabric*> fabric_of_process{nullptr};
std::atomic<bool> is_ending{false};

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return message_for_user(e);
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

// How a rank ends the job: it reports an error, only follows another rank, or timed out.
enum class Ending { kReports, kFollows, kTimedOut };

Ending ending_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailed&) {
    return Ending::kFollows;
  } catch (const collectives::CollectiveTimeout&) {
    return Ending::kTimedOut;
  } catch (...) {
    return Ending::kReports;
  }
}

int exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return tessera::exit_code_of(e);
  } catch (...) {
    return 1;
  }
}

// Why a rank ends the job.
struct Failure {
  std::string message;
  Ending ending = Ending::kReports;
  int exit_code = 1;
};

Failure failure_of(const std::exception_ptr& error) {
  if (!error) return {"terminated"};
  return {message_of(error), ending_of(error), exit_code_of(error)};
}

// The ranks of this node that fail with the same message as this rank, in order.
struct Reporters {
  std::vector<int> all;
  std::vector<int> with_other_numbers;  // in the message
};

Reporters reporters_of(MpiFabric& fabric, std::uint64_t failure) {
  Reporters out{{fabric.world_rank}, {}};
  for (const auto& peer : fabric.node().peers()) {
    const std::uint64_t other = peer.page->failure.load(std::memory_order_acquire);
    if (other == 0 || !collectives::is_same_failure(other, failure)) continue;
    out.all.push_back(peer.world_rank);
    if (other != failure) out.with_other_numbers.push_back(peer.world_rank);
  }
  std::sort(out.all.begin(), out.all.end());
  std::sort(out.with_other_numbers.begin(), out.with_other_numbers.end());
  return out;
}

std::string reporter_text(const std::vector<int>& ranks, int size) {
  if (isize(ranks) == size && size > 1) return fmt::format("all {} ranks", size);
  return fmt::format("{} of {}", collectives::rank_list(ranks), size);
}

bool all_have_failed(MpiFabric& fabric) {
  const auto& peers = fabric.node().peers();
  return std::all_of(peers.begin(), peers.end(), [](const collectives::Peer& peer) {
    return peer.page->state.load(std::memory_order_acquire) != RankState::kRunning;
  });
}

// Prints the failure. If several ranks have the same message, only the lowest of them prints it.
void print_failure(MpiFabric& fabric, int size, const std::string& message, std::uint64_t failure) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeForPeersToFail;
  while (!all_have_failed(fabric) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Reporters reporters = reporters_of(fabric, failure);
  if (reporters.all.front() != fabric.world_rank) return;
  std::string text = fmt::format("{}: {}\n", reporter_text(reporters.all, size), message);
  if (!reporters.with_other_numbers.empty())
    text +=
        fmt::format("  the message of {} has other numbers\n", collectives::rank_list(reporters.with_other_numbers));
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

bool has_other_hosts(MpiFabric& fabric) {
  const auto& hosts = fabric.locations().hosts;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) { return host != hosts.front(); });
}

// Ends this process even if MPI_Abort waits for a host that does not answer.
[[noreturn]] void abort_all(int exit_code) {
  std::thread([exit_code] {
    std::this_thread::sleep_for(kTimeToBeKilled);
    std::_Exit(exit_code);
  }).detach();
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

// Ends all ranks. A rank without its own error waits to be ended, so that the rank with the error can report it.
[[noreturn]] void end_job(MpiFabric& fabric, int size, const Failure& failure) {
  if (is_ending.exchange(true)) std::this_thread::sleep_for(kTimeToBeKilled);
  fabric.progress().retire();
  const bool silent = failure.ending == Ending::kFollows;
  const std::uint64_t hash = silent ? 0 : collectives::failure_hash(failure.message);
  fabric.node().own().failure.store(hash, std::memory_order_release);
  fabric.node().set_state(RankState::kFailed);
  if (!silent) print_failure(fabric, size, failure.message, hash);
  // All ranks of a divergence report it before one of them ends the job.
  const auto patience = kTimeForPeersToSpeak + std::min(fabric.world_rank, 20) * kTimeBetweenAborts;
  std::this_thread::sleep_for(silent ? std::chrono::milliseconds(kTimeToBeKilled) : patience);
  if (failure.ending == Ending::kTimedOut && has_other_hosts(fabric)) {
    collectives::end_launcher();
    std::_Exit(failure.exit_code);
  }
  abort_all(failure.exit_code);
}

void meet_at_end(MpiFabric& fabric, int size) {
  try {
    fabric.meet_at_end();
  } catch (...) {
    end_job(fabric, size, failure_of(std::current_exception()));
  }
}

[[noreturn]] void on_terminate() {
  MpiFabric* fabric = fabric_of_process.load();
  const Failure failure = failure_of(std::current_exception());
  if (fabric != nullptr) end_job(*fabric, static_cast<int>(fabric->locations().nodes.size()), failure);
  std::_Exit(fail_before_world(failure.message, failure.exit_code));
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator::~Communicator() {
  if (!state_ || state_->finalized) return;
  if (state_->fabric && std::uncaught_exceptions() > state_->exceptions_at_start) abort("left by an exception");
  finalize();
}

void Communicator::finalize() {
  if (state_->finalized) return;
  state_->context.get<CommunicationTurn>().await();
  state_->finalized = true;
  if (state_->fabric) {
    meet_at_end(*state_->fabric, size());
    state_->fabric->progress().stop();
  }
  if (state_->thread == std::this_thread::get_id()) RankContext::exchange_current(state_->previous_context);
  state_->group.reset();
  if (!state_->fabric) return;
  fabric_of_process = nullptr;
  {
    const collectives::Deadline deadline("the end of MPI (MPI_Finalize)", rank(), size());
    collectives::stop_mpi();
  }
  state_->fabric.reset();
}

void Communicator::abort(const std::string& message) {
  if (state_->fabric) end_job(*state_->fabric, size(), {message});
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

int Communicator::rank() const { return state_->context.rank(); }
int Communicator::size() const { return state_->context.rank_count(); }
int Communicator::node() const { return at(state_->nodes, rank()); }
int Communicator::node_count() const { return 1 + *std::max_element(state_->nodes.begin(), state_->nodes.end()); }
int Communicator::local_rank() const {
  return static_cast<int>(std::count(state_->nodes.begin(), state_->nodes.begin() + rank(), node()));
}
int Communicator::local_size() const {
  return static_cast<int>(std::count(state_->nodes.begin(), state_->nodes.end(), node()));
}
const std::vector<int>& Communicator::nodes() const { return state_->nodes; }
const std::vector<std::string>& Communicator::host_names() const { return state_->hosts; }
bool Communicator::uses_mpi() const { return state_->fabric != nullptr; }
bool Communicator::shares_memory() const { return state_->fabric && state_->fabric->locations().shares_memory; }
std::optional<NodeLinks> Communicator::links() const {
  if (!state_->fabric || !state_->fabric->has_links()) return {};
  return state_->fabric->links();
}
bool Communicator::has_progress_thread() const { return state_->fabric && state_->fabric->progress().has_thread(); }
ProcessGroup& Communicator::group() const {
  ensure(state_->group != nullptr, "the world is used after finalize()");
  return *state_->group;
}
std::shared_ptr<ProcessGroup> Communicator::shared_group() const { return state_->group; }
RankContext& Communicator::context() const { return state_->context; }

std::string Communicator::oversubscription_note(int threads_per_rank) const {
  const int cores = state_->fabric ? state_->fabric->core_count() : usable_cpu_count();
  if (local_size() * threads_per_rank <= cores) return "";
  return fmt::format("{} ranks with {} threads each share {} cores of node {}", local_size(), threads_per_rank, cores,
                     node());
}

Communicator make_world(int& argc, char**& argv) {
  int rank = 0;
  int size = 1;
  const bool with_mpi = collectives::has_launcher();
  if (with_mpi) {
    std::set_terminate(on_terminate);
    collectives::start_mpi(&argc, &argv);
    collectives::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    collectives::check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  }
  auto state = std::make_unique<Communicator::State>(rank, size);
  state->thread = std::this_thread::get_id();
  state->exceptions_at_start = std::uncaught_exceptions();
  state->previous_context = RankContext::exchange_current(&state->context);
  if (!with_mpi) {
    state->group = make_single_rank_world();
    state->hosts = {host_name()};
    state->nodes = {0};
    return Communicator(std::move(state));
  }
  state->fabric = std::make_shared<MpiFabric>(rank, size);
  state->hosts = state->fabric->locations().hosts;
  state->nodes = state->fabric->locations().nodes;
  state->context.get<collectives::OwnNodeMemory>().memory = state->fabric->node().heap();
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  state->group = state->fabric->make_group(all, "world", 0);
  fabric_of_process = state->fabric.get();
  return Communicator(std::move(state));
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  collectives::check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view version(text.data());
  return std::string(trim(version.substr(0, version.find('\n'))));
}

int fail_before_world(const std::string& message, int status) {
  constexpr auto kTimeForTheFirst = std::chrono::seconds(3);  // mpirun needs one second to end the others
  if (collectives::has_launcher() && collectives::launched_rank() > 0) std::this_thread::sleep_for(kTimeForTheFirst);
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  return status;
}

int guard_main(Communicator& world, const std::function<void()>& fn) {
  try {
    fn();
    world.context().get<CommunicationTurn>().await();  // work that still runs in parallel may have failed
    return 0;
  } catch (...) {
    const Failure failure = failure_of(std::current_exception());
    MpiFabric* fabric = fabric_of_process.load();
    if (world.uses_mpi() && fabric != nullptr) end_job(*fabric, world.size(), failure);
    std::fprintf(stderr, "%s\n", failure.message.c_str());
    return failure.exit_code;
  }
}

}  // namespace tessera
