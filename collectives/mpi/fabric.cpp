// SPDX-License-Identifier: Apache-2.0
#include "mpi/fabric.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <numeric>

#include "hierarchical.h"
#include "mpi/deadline.h"
#include "mpi/measure.h"
#include "mpi/mpi_group.h"
#include "shared_memory/backoff.h"
#include "shared_memory/shared_group.h"
#include "tessera/base/cpus.h"
#include "tessera/base/instruction_set.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

// The entry of TESSERA_NODE for this rank: the value itself, or the entry of a list with one name per rank.
std::string named_node(int rank, int size) {
  const auto names = options().list("TESSERA_NODE");
  if (names.size() <= 1) return options().text("TESSERA_NODE");
  require(isize(names) == size, "TESSERA_NODE lists {} nodes for {} ranks; give one for each rank", names.size(), size);
  return at(names, rank);
}

// The lowest rank that can share memory with this one, according to MPI.
int shared_memory_leader(MPI_Comm world, int rank) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int leader = rank;
  const int code = MPI_Allreduce(&rank, &leader, 1, MPI_INT, MPI_MIN, node);
  MPI_Comm_free(&node);
  check_mpi(code, "MPI_Allreduce");
  return leader;
}

}  // namespace

// The data that ranks exchange at the start.
struct MpiFabric::Introduction {
  std::array<char, 64> host{};
  std::array<char, 64> node{};
  std::int32_t leader = 0;
  SegmentAddress segment;
  SegmentAddress heap;
  CpuSet cpus;
  std::size_t instruction_set = 0;  // past the end if TESSERA_ISA is wrong, which the runtime reports
};

MpiFabric::MpiFabric(int rank, int size) : size_(size), node_(std::make_shared<Node>(rank, size)) {
  world_rank = rank;
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  world_ = MpiCommunicator(copy, "tessera world");
  const Deadline deadline("the start of the job, where the ranks exchange their addresses", rank, size);
  introduce();
  if (!has_links()) return;
  find_links();
  if (wants_progress_thread(ranks_of_machine_, core_count_)) progress_->start_thread(RankContext::current());
}

void MpiFabric::introduce() {
  Introduction own;
  gethostname(own.host.data(), own.host.size() - 1);
  named_node(world_rank, size_).copy(own.node.data(), own.node.size() - 1);
  own.leader = shared_memory_leader(world_.handle(), world_rank);
  own.segment = node_->address();
  own.heap = node_->heap_address();
  own.cpus = usable_cpus();
  const auto set = find_instruction_set();
  own.instruction_set = set ? static_cast<std::size_t>(*set) : kInstructionSetNames.size();
  std::vector<Introduction> all(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, world_.handle()),
            "MPI_Allgather");
  count_cores(all, own.leader);
  agree_on_instructions(all);
  std::vector<std::pair<int, std::string>> known;
  for (const auto& rank : all) {
    locations_.hosts.emplace_back(rank.host.data());
    const std::pair<int, std::string> key(rank.leader, rank.node.data());
    const auto place = std::find(known.begin(), known.end(), key);
    locations_.nodes.push_back(static_cast<int>(place - known.begin()));
    if (place == known.end()) known.push_back(key);
  }
  node_->set_hosts(locations_.hosts);
  open_node(all);
}

// Ranks that a launcher binds only see their own cores, so this counts the union of the cores that they see.
void MpiFabric::count_cores(const std::vector<Introduction>& all, int leader) {
  CpuSet cpus;
  ranks_of_machine_ = 0;
  for (const Introduction& rank : all) {
    if (rank.leader != leader) continue;
    ++ranks_of_machine_;
    cpus |= rank.cpus;
  }
  core_count_ = static_cast<int>(cpus.count());
  node_->set_core_per_rank(ranks_of_machine_ <= core_count_);
}

// Ranks must compute bit-identical results, so all use the instruction set of the least capable rank.
void MpiFabric::agree_on_instructions(const std::vector<Introduction>& all) const {
  const auto by_set = [](const Introduction& a, const Introduction& b) {
    return a.instruction_set < b.instruction_set;
  };
  const auto [least, most] = std::minmax_element(all.begin(), all.end(), by_set);
  if (least->instruction_set == most->instruction_set || most->instruction_set >= kInstructionSetNames.size()) return;
  const std::string_view name = kInstructionSetNames[least->instruction_set];
  if (world_rank == 0)
    log_warning("rank {} has the instruction set {}, rank {} {}; all use {}, as with TESSERA_ISA={}",
                least - all.begin(), name, most - all.begin(), kInstructionSetNames[most->instruction_set], name, name);
  options().set("TESSERA_ISA", name);
}

// All ranks agree on whether shared memory works, because the members of a group must use the same implementation.
void MpiFabric::open_node(const std::vector<Introduction>& all) {
  std::vector<int> ranks;
  std::vector<SegmentAddress> addresses;
  std::vector<SegmentAddress> heaps;
  for (int rank = 0; rank < size_; ++rank) {
    if (at(locations_.nodes, rank) != at(locations_.nodes, world_rank)) continue;
    ranks.push_back(rank);
    addresses.push_back(at(all, rank).segment);
    heaps.push_back(at(all, rank).heap);
  }
  std::string refused = first_reason(node_->refusal());
  if (refused.empty()) {
    std::string reason;
    if (node_->open_peers(ranks, addresses, reason)) reason.clear();
    refused = first_reason(reason);
  }
  node_->close_descriptor();
  locations_.shares_memory = refused.empty();
  if (!refused.empty()) {
    node_->forget_peers();
    node_->forget_heap();
    if (world_rank != 0) return;
    const std::string text =
        fmt::format("no shared memory between the ranks of a node ({}); all data goes through MPI", refused);
    options().text("TESSERA_SHARED_MEMORY") == "0" ? log_debug("{}", text) : log_warning("{}", text);
    return;
  }
  const std::string file = first_reason(node_->file_reason());
  if (!file.empty() && world_rank == 0) log_warning("ranks of a node exchange data through files ({})", file);
  open_heaps(ranks, heaps);
}

// The node of each rank for the transfer of payload.
std::vector<int> MpiFabric::apart() const {
  std::vector<int> nodes = locations_.nodes;
  if (!locations_.shares_memory) std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

bool MpiFabric::has_links() const {
  const auto nodes = apart();
  return std::any_of(nodes.begin(), nodes.end(), [&](int node) { return node != nodes[0]; });
}

// All ranks use the value that rank 0 was given.
void MpiFabric::find_links() {
  auto given = given_node_links();
  std::array<double, 3> numbers{};
  if (given) numbers = {given->latency_seconds, given->bytes_per_second, given->message_seconds};
  check_mpi(MPI_Bcast(numbers.data(), isize(numbers), MPI_DOUBLE, 0, world_.handle()), "MPI_Bcast");
  const bool is_given = numbers[1] > 0;
  const auto begin = std::chrono::steady_clock::now();
  links_ =
      is_given ? NodeLinks{numbers[0], numbers[1], numbers[2]} : measure_links(world_.handle(), world_rank, apart());
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  if (world_rank != 0) return;
  log_debug("between nodes ({}): {}", is_given ? "TESSERA_LINK" : fmt::format("measured in {:.1f} ms", taken.count()),
            links_.str());
}

// Either all ranks have node memory that their peers have mapped, or none has.
void MpiFabric::open_heaps(const std::vector<int>& ranks, const std::vector<SegmentAddress>& heaps) {
  std::string reason = "no segment";
  if (node_->heap() && node_->open_heaps(ranks, heaps, reason)) reason.clear();
  const std::string refused = first_reason(reason);
  if (refused.empty()) return;
  node_->forget_heap();
  if (world_rank == 0 && options().text("TESSERA_SHARED_MEMORY") == "1" && node_->file_reason().empty())
    log_warning(
        "ranks of a node cannot read each other's memory in place ({}); data that they exchange is copied twice",
        refused);
}

// The text `rank 3: reason` for the lowest rank with a reason; "" if none has one. Collective.
std::string MpiFabric::first_reason(const std::string& own) {
  using Text = std::array<char, 400>;
  Text text{};
  own.copy(text.data(), text.size() - 1);
  std::vector<Text> all(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(text.data(), sizeof text, MPI_BYTE, all.data(), sizeof text, MPI_BYTE, world_.handle()),
            "MPI_Allgather");
  const auto found = std::find_if(all.begin(), all.end(), [](const auto& one) { return one[0] != '\0'; });
  return found == all.end() ? "" : fmt::format("rank {}: {}", found - all.begin(), found->data());
}

std::vector<int> MpiFabric::nodes_of(const std::vector<int>& world_ranks) const {
  std::vector<int> nodes;
  if (!node_->heap()) return nodes;
  for (const int rank : world_ranks) nodes.push_back(at(locations_.nodes, rank));
  return nodes;
}

void MpiFabric::works_on(std::string_view text) { node_->works_on(text); }

void MpiFabric::advance(std::uint64_t progress) { node_->own().progress.store(progress, std::memory_order_release); }

void MpiFabric::await_progress(const std::vector<int>& world_ranks, std::uint64_t progress, const std::string& group) {
  const auto has_come = [&](int rank) {
    return rank == world_rank || node_->page_of(rank).progress.load(std::memory_order_acquire) >= progress;
  };
  if (std::all_of(world_ranks.begin(), world_ranks.end(), has_come)) return;
  const auto absent = [&] {
    std::vector<int> ranks;
    std::copy_if(world_ranks.begin(), world_ranks.end(), std::back_inserter(ranks),
                 [&](int rank) { return !has_come(rank); });
    return ranks;
  };
  const std::string text = text_of_progress(group);
  Backoff backoff(*node_, text);
  while (!std::all_of(world_ranks.begin(), world_ranks.end(), has_come)) backoff.pause(absent);
}

void MpiFabric::meet_at_end() {
  const auto held = progress_->claim();
  node_->set_state(RankState::kFinished);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(world_.handle(), &request), "MPI_Ibarrier");
  const auto running = [this] {
    std::vector<int> ranks;
    for (const auto& peer : node_->peers())
      if (peer.page->state.load(std::memory_order_acquire) == RankState::kRunning) ranks.push_back(peer.world_rank);
    return ranks;
  };
  const std::string text = "the end of the program";
  Backoff backoff(*node_, text, Backoff::Limit::kNone);  // a rank may have other work to finish
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) backoff.pause(running);
  }
}

std::shared_ptr<ProcessGroup> MpiFabric::make_group(const std::vector<int>& world_ranks, const std::string& name,
                                                    std::int64_t id) {
  const auto places = apart();
  std::vector<int> nodes;
  for (const int rank : world_ranks) nodes.push_back(at(places, rank));
  const auto self = shared_from_this();
  return make_for_nodes(self, membership(world_ranks, world_rank, name, id), nodes, [&](bool counted) -> GroupMakers {
    return {.on_node = [&, counted](const std::vector<int>& ranks) -> std::shared_ptr<GroupBase> {
              return std::make_shared<SharedGroup>(self, node_, membership(ranks, world_rank, name, id, counted));
            },
            .between_nodes = [&, counted](const std::vector<int>& ranks,
                                          const std::string& flavour) -> std::shared_ptr<ProcessGroup> {
              const int tag = static_cast<int>(id % 16383) * 2 + (flavour == "flat" ? 1 : 0);
              auto held = progress_->claim();
              const Deadline deadline("the creation of group " + name, world_rank, size_);
              auto communicator = make_communicator(world_.handle(), ranks, tag, flavour + " of " + name);
              held.unlock();
              return std::make_shared<MpiGroup>(self, node_, progress_, std::move(communicator),
                                                membership(ranks, world_rank, name, id, counted));
            }};
  });
}

}  // namespace tessera::collectives
