// SPDX-License-Identifier: Apache-2.0
// `tessera calibrate OUT.json`, on one rank or on the ranks of mpirun.
#include <fmt/format.h>

#include "input.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/collectives/world.h"
#include "tessera/runtime/metrics/measure_machine.h"

namespace tessera::command {
namespace {

void calibrate(const Arguments& arguments, ProcessGroup& world) {
  warn_of_unknown_variables();
  if (world.rank() == 0 && arguments.input() != "-") check_writable(arguments.input());  // before the measurements
  MachineMeasurement how;
  if (const auto mesh = arguments.value("mesh")) how.mesh = Mesh::parse(*mesh, world.size());
  constexpr double kMilliseconds = 1e-3;
  constexpr std::int64_t kDefault = 200;
  how.seconds_per_figure = kMilliseconds * static_cast<double>(arguments.number_or("milliseconds", kDefault));
  MachineModel machine = measure_machine(world, how);
  if (const auto name = arguments.value("name")) machine.set_name(*name);
  if (world.rank() == 0) write_text(arguments.input(), machine.str());
}

int run(const Arguments& arguments) {
  const int threads = virtual_ranks(arguments);
  constexpr std::int64_t kUnknown = -1;  // the number of mpirun's ranks
  check_sharding_options(arguments, threads > 0 ? threads : kUnknown);
  if (threads > 0) {
    run_virtual_ranks(threads, [&](ProcessGroup& world) { calibrate(arguments, world); });
    return kGood;
  }
  char name[] = "tessera";
  char* words[] = {name, nullptr};
  int count = 1;
  char** list = words;
  Communicator world = make_world(count, list);
  return guard_main(world, [&] {
    try {
      calibrate(arguments, world.group());
    } catch (Error& error) {
      error.prefix("tessera calibrate: ");
      throw;
    }
  });
}

constexpr std::int64_t kMostVirtualRanks = 4096;
constexpr std::int64_t kLongest = 60'000;

}  // namespace

const Verb kCalibrate = {
    "calibrate",
    "measures this machine and writes a profile for --machine",
    "Measures FLOP/s by element type and kind of work, bytes/s of memory, and latency and bytes/s of the links "
    "between\n"
    "the ranks of mpirun (with --mesh: of each axis). Without mpirun, the links are those of the preset cpu-node.",
    {{"mesh", "AXIS=SIZE,..", "measure the links of each of these axes; default: one link between all ranks",
      mesh_text()},
     {"milliseconds", "N", "the time for each measurement; default: 200", integer_in_range(1, kLongest)},
     {"name", "NAME", "the name of the profile; default: measured"},
     {"virtual-ranks", "N", "measure N ranks that are threads of this process, without mpirun",
      integer_in_range(1, kMostVirtualRanks)}},
    run,
    "OUT.json",
    "the file to write, or - for standard output"};

}  // namespace tessera::command
