#!/bin/sh
# Before a job's first launch from an image: is it the one that was built, can this node run it, and does srun speak what the
# MPI library in it does?
#   sh image.sh COMMAND IMAGE DIGEST PMI
# COMMAND is apptainer or singularity, DIGEST the SHA-256 of the file, PMI pmix, pmi2 or none. What is wrong is one sentence.
set -eu
command=$1 image=$2 digest=$3 pmi=$4

fail() { echo "image.sh: $*" >&2; exit 1; }

[ -r "$image" ] || fail "$(uname -n) cannot read $image: put images where all nodes see them, and name it by NEARMETAL_IMAGES."
found=$(sha256sum "$image" | cut -d ' ' -f 1)
[ "$found" = "$digest" ] || fail "$image has the digest sha256:$found, and its record sha256:$digest: build it anew (make images)."
command -v "$command" > /dev/null || fail "$command is not on PATH of $(uname -n)."
words=$("$command" exec "$image" true 2>&1) || fail "$command cannot run $image on $(uname -n): $(echo "$words" | tail -n 1)"

[ "$pmi" = none ] && exit
# What srun is going to speak: --mpi from the environment, or the site's default.
spoken=${SLURM_MPI_TYPE:-$(scontrol show config | awk '$1 == "MpiDefault" { print $3 }')}
case $pmi-$spoken in
    pmix-pmix | pmix-pmix_v[2-9]* | pmi2-pmi2) ;;
    pmix-pmix_v1) fail "srun speaks PMIx 1, which the image's PMIx cannot: choose a newer plugin (srun --mpi=list)." ;;
    *) fail "the MPI library in $image finds its peers by $pmi, but srun speaks $spoken here: set SLURM_MPI_TYPE=$pmi in this" \
        "environment's env_vars, or run another image." ;;
esac
offered=$(srun --mpi=list 2>&1) || fail "srun --mpi=list fails on $(uname -n): $offered"
echo "$offered" | grep -Eq "(^|[[:space:],])$spoken([[:space:],]|\$)" ||
    fail "srun offers no $spoken here ($(echo "$offered" | tr -s '[:space:]' ' ')): Slurm was built without it; run another image."
