// SPDX-License-Identifier: Apache-2.0
// What started the ranks of this host: mpirun, or the daemon (orted) that stands for it on another host.
#pragma once

namespace tessera::collectives {

/// Ends Open MPI's launcher of this process, if it has one. MPI_Abort is not enough where another host does not answer: mpirun would wait
/// for its daemon there. This process must end itself.
void end_launcher();

}  // namespace tessera::collectives
