// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.foreign.SymbolLookup;

/**
 * The constants of one binary interface of MPI. A handle is a Java long, whatever its type in C.
 *
 * <p>A name is the one of the standard without its prefix {@code MPI_}.
 */
abstract class Abi {
    /** Name of the interface, for a person. */
    final String name;
    /** Bytes of a handle in an array, 4 or 8. */
    final int handleBytes;
    /** Bytes of {@code MPI_Status}, and where its public members are. */
    final int statusBytes, sourceAt, tagAt, errorAt;

    Abi(String name, int handleBytes, int statusBytes, int sourceAt) {
        this.name = name;
        this.handleBytes = handleBytes;
        this.statusBytes = statusBytes;
        this.sourceAt = sourceAt;
        tagAt = sourceAt + 4;
        errorAt = sourceAt + 8;
    }

    /** The handle with this name, such as {@code COMM_WORLD}. */
    abstract long handle(String constant);

    /** The integer with this name, such as {@code ANY_TAG}. */
    abstract int integer(String constant);

    /** The standard's interface, by which MPICH 5 and Open MPI 6 have a {@code libmpi_abi}. */
    static final class Standard extends Abi {
        Standard() {
            super("MPI-5 standard ABI", 8, 32, 0);
        }

        @Override
        long handle(String constant) {
            return switch (constant) {
                case "OP_NULL" -> 0x20;
                case "SUM" -> 0x21;
                case "MIN" -> 0x22;
                case "MAX" -> 0x23;
                case "PROD" -> 0x24;
                case "BAND" -> 0x28;
                case "BOR" -> 0x29;
                case "BXOR" -> 0x2a;
                case "LAND" -> 0x30;
                case "LOR" -> 0x31;
                case "LXOR" -> 0x32;
                case "MINLOC" -> 0x38;
                case "MAXLOC" -> 0x39;
                case "COMM_NULL" -> 0x100;
                case "COMM_WORLD" -> 0x101;
                case "COMM_SELF" -> 0x102;
                case "GROUP_NULL" -> 0x108;
                case "GROUP_EMPTY" -> 0x109;
                case "MESSAGE_NULL" -> 0x128;
                case "INFO_NULL" -> 0x130;
                case "ERRORS_ARE_FATAL" -> 0x141;
                case "ERRORS_RETURN" -> 0x143;
                case "REQUEST_NULL" -> 0x180;
                case "DATATYPE_NULL" -> 0x200;
                case "PACKED" -> 0x207;
                case "FLOAT" -> 0x210;
                case "DOUBLE" -> 0x214;
                case "2INT" -> 0x22b;
                case "C_BOOL" -> 0x238;
                case "INT8_T" -> 0x240;
                case "BYTE" -> 0x247;
                case "INT16_T" -> 0x248;
                case "UINT16_T" -> 0x249;
                case "INT32_T" -> 0x250;
                case "INT64_T" -> 0x258;
                default -> throw new IllegalArgumentException(constant);
            };
        }

        @Override
        int integer(String constant) {
            return switch (constant) {
                case "ANY_SOURCE" -> -1;
                case "ANY_TAG" -> -2;
                case "PROC_NULL" -> -3;
                case "UNDEFINED" -> -32766;
                case "THREAD_SINGLE" -> 0;
                case "THREAD_FUNNELED" -> 1024;
                case "THREAD_SERIALIZED" -> 2048;
                case "THREAD_MULTIPLE" -> 4096;
                case "IDENT" -> 201;
                case "CONGRUENT" -> 202;
                case "SIMILAR" -> 203;
                case "UNEQUAL" -> 204;
                case "CART" -> 211;
                case "GRAPH" -> 212;
                case "COMM_TYPE_SHARED" -> 221;
                case "TAG_UB" -> 501;
                case "IO" -> 502;
                case "HOST" -> 503;
                case "WTIME_IS_GLOBAL" -> 504;
                case "BSEND_OVERHEAD" -> 512;
                case "ERR_TRUNCATE" -> 15;
                case "ERR_PENDING" -> 18;
                case "ERR_IN_STATUS" -> 19;
                default -> throw new IllegalArgumentException(constant);
            };
        }
    }

    /** MPICH 3 to 5 and what derives from it, where a handle is an integer. */
    static final class Mpich extends Abi {
        Mpich() {
            super("MPICH", 4, 20, 8);
        }

        @Override
        long handle(String constant) {
            return switch (constant) {
                case "OP_NULL" -> 0x18000000;
                case "MAX" -> 0x58000001;
                case "MIN" -> 0x58000002;
                case "SUM" -> 0x58000003;
                case "PROD" -> 0x58000004;
                case "LAND" -> 0x58000005;
                case "BAND" -> 0x58000006;
                case "LOR" -> 0x58000007;
                case "BOR" -> 0x58000008;
                case "LXOR" -> 0x58000009;
                case "BXOR" -> 0x5800000a;
                case "MINLOC" -> 0x5800000b;
                case "MAXLOC" -> 0x5800000c;
                case "COMM_NULL" -> 0x04000000;
                case "COMM_WORLD" -> 0x44000000;
                case "COMM_SELF" -> 0x44000001;
                case "GROUP_NULL" -> 0x08000000;
                case "GROUP_EMPTY" -> 0x48000000;
                case "MESSAGE_NULL", "REQUEST_NULL" -> 0x2c000000;
                case "INFO_NULL" -> 0x1c000000;
                case "ERRORS_ARE_FATAL" -> 0x54000000;
                case "ERRORS_RETURN" -> 0x54000001;
                case "DATATYPE_NULL" -> 0x0c000000;
                case "PACKED" -> 0x4c00010f;
                case "BYTE" -> 0x4c00010d;
                case "FLOAT" -> 0x4c00040a;
                case "DOUBLE" -> 0x4c00080b;
                case "2INT" -> 0x4c000816;
                case "C_BOOL" -> 0x4c00013f;
                case "INT8_T" -> 0x4c000137;
                case "INT16_T" -> 0x4c000238;
                case "UINT16_T" -> 0x4c00023c;
                case "INT32_T" -> 0x4c000439;
                case "INT64_T" -> 0x4c00083a;
                default -> throw new IllegalArgumentException(constant);
            };
        }

        @Override
        int integer(String constant) {
            return switch (constant) {
                case "ANY_SOURCE" -> -2;
                case "ANY_TAG", "PROC_NULL" -> -1;
                case "UNDEFINED" -> -32766;
                case "THREAD_SINGLE", "IDENT" -> 0;
                case "THREAD_FUNNELED", "CONGRUENT", "GRAPH", "COMM_TYPE_SHARED" -> 1;
                case "THREAD_SERIALIZED", "SIMILAR", "CART" -> 2;
                case "THREAD_MULTIPLE", "UNEQUAL" -> 3;
                case "TAG_UB" -> 0x64400001;
                case "HOST" -> 0x64400003;
                case "IO" -> 0x64400005;
                case "WTIME_IS_GLOBAL" -> 0x64400007;
                case "BSEND_OVERHEAD" -> 96;
                case "ERR_TRUNCATE" -> 14;
                case "ERR_IN_STATUS" -> 17;
                case "ERR_PENDING" -> 18;
                default -> throw new IllegalArgumentException(constant);
            };
        }
    }

    /** Open MPI 4.1 and 5, where a handle is the address of a symbol. */
    static final class OpenMpi extends Abi {
        private final SymbolLookup symbols;

        OpenMpi(SymbolLookup symbols) {
            super("Open MPI", 8, 24, 0);
            this.symbols = symbols;
        }

        @Override
        long handle(String constant) {
            String symbol = switch (constant) {
                case "COMM_NULL", "COMM_WORLD", "COMM_SELF", "GROUP_NULL", "GROUP_EMPTY",
                    "ERRORS_ARE_FATAL", "ERRORS_RETURN", "INFO_NULL", "DATATYPE_NULL", "PACKED",
                    "BYTE", "FLOAT", "DOUBLE", "2INT", "C_BOOL", "INT8_T", "INT16_T", "UINT16_T",
                    "INT32_T", "INT64_T" ->
                    "ompi_mpi_" + constant.toLowerCase(java.util.Locale.ROOT);
                case "REQUEST_NULL" -> "ompi_request_null";
                case "MESSAGE_NULL" -> "ompi_message_null";
                case "OP_NULL", "MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR",
                    "BXOR", "MINLOC", "MAXLOC" ->
                    "ompi_mpi_op_" + constant.replace("OP_", "").toLowerCase(java.util.Locale.ROOT);
                default -> throw new IllegalArgumentException(constant);
            };
            return symbols.find(symbol)
                .orElseThrow(
                    () -> new Unusable("it has no symbol " + symbol + ": is it Open MPI 4.1 or 5?"))
                .address();
        }

        @Override
        int integer(String constant) {
            return switch (constant) {
                case "ANY_SOURCE", "ANY_TAG" -> -1;
                case "PROC_NULL" -> -2;
                case "UNDEFINED" -> -32766;
                case "THREAD_SINGLE", "IDENT", "TAG_UB", "COMM_TYPE_SHARED" -> 0;
                case "THREAD_FUNNELED", "CONGRUENT", "CART", "HOST" -> 1;
                case "THREAD_SERIALIZED", "SIMILAR", "GRAPH", "IO" -> 2;
                case "THREAD_MULTIPLE", "UNEQUAL", "WTIME_IS_GLOBAL" -> 3;
                case "BSEND_OVERHEAD" -> 128;
                case "ERR_TRUNCATE" -> 15;
                case "ERR_IN_STATUS" -> 18;
                case "ERR_PENDING" -> 19;
                default -> throw new IllegalArgumentException(constant);
            };
        }
    }

    /** The library cannot be used, for the reason in the message. */
    static final class Unusable extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unusable(String reason) {
            super(reason, null, false, false);
        }
    }
}
