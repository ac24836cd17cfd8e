// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** The function of a user-defined reduction. */
public abstract class User_function {
    /** For classes that define an operation. */
    public User_function() {}

    /**
     * Sets {@code inoutvec[i] = invec[i] op inoutvec[i]} for {@code count} items of a datatype.
     * Both are arrays of its basic type; the items start at the offsets.
     *
     * @param invec the first array
     * @param inoffset first element of the first array
     * @param inoutvec the second array, which gets the result
     * @param inoutoffset first element of the second array
     * @param count items
     * @param datatype datatype of the items
     */
    public abstract void Call(
        Object invec, int inoffset, Object inoutvec, int inoutoffset, int count, Datatype datatype);
}
