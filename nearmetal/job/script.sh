set -e
%% for line in software
{{ line }}
%% endfor
%% for name, command in first_nodes
{{ name }}=$({{ command }})
%% endfor
%% for line in preparations
{{ line }}
%% endfor
{{ probe }} > provenance.before
%% if turns
%%   if limits
. ./repeats.sh
%%   endif
%%   for side in sides
variant_{{ side.letter }}() (
%%     for line in side.lines
    {{ line }}
%%     endfor
)
counters_{{ side.letter }}() { {{ side.probe }} counters; }
%%   endfor
launch() {
    echo "# nearmetal duet: pair=$1 variant=$2"
    variant_$2
    counters_$2 > counters.$1.$2
%%   if limits
    turn=$((turn + 1))
    evidence $turn {{ limits }} {{ output }} ${last:-provenance.before} counters.$1.$2 || [ $? -eq 1 ]
    last=counters.$1.$2
%%   endif
}
%%   for pair, letter in turns
launch {{ pair }} {{ letter }}
%%   endfor
{{ probe }} counters > provenance.after
%% else
launch() {
%%   if instances > 1
    . ./instances.sh
    instance() {
%%     for line in lines
        {{ line }}
%%     endfor
    }
    instances {{ instances }} {{ nodes_of_instance }}
%%   else
%%     for line in lines
    {{ line }}
%%     endfor
%%   endif
}
snapshot() { {{ probe }} counters; }
. ./repeats.sh
repeats {{ repeats }} {{ spare_repeats }} {{ limits }} {{ output }}
%% endif
%% for line in clean_up
{{ line }}
%% endfor
