// SPDX-License-Identifier: Apache-2.0
// The program that started the ranks of this host: mpirun, or its daemon (orted) on another host.
#pragma once

namespace tessera::collectives {

/// Starts a process that ends Open MPI's launcher of this process, if there is one, and then itself. MPI_Abort is not
/// enough if another host does not answer, because mpirun would wait for its daemon on that host. The calling process
/// must end itself.
void end_launcher();

}  // namespace tessera::collectives
