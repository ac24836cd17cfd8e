// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** What errors of native calls do (MPI-1.1, section 7.2). */
public class Errhandler {
    final long handle;

    Errhandler(String constant) {
        handle = Native.ABI == null ? 0 : Native.ABI.handle(constant);
    }
}
