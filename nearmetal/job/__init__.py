"""The script of a job: launcher x runtime x repeats x evidence, from one template (script.sh)."""
