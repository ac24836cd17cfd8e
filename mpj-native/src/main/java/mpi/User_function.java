// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** The function of a user-defined reduction. */
public abstract class User_function {
    /**
     * Sets {@code inoutvec[i] = invec[i] op inoutvec[i]} for {@code count} items of a datatype.
     * Both are arrays of its basic type; the items start at the offsets.
     */
    public abstract void Call(
        Object invec, int inoffset, Object inoutvec, int inoutoffset, int count, Datatype datatype);
}
