# The login environment of a lab user: ReFrame, its configuration, and the modules.
export RFM_CONFIG_PATH={{ checkout }}/site-config
# The system file of `ec2:cc` in the lab.
export NEARMETAL_SYSTEMS_PATH={{ checkout }}/site-config/lab/systems
# Each machine's lab has its own baseline.
export RFM_REFERENCE_PREFIX={{ checkout }}/results/baselines
{% if hardware -%}
# The system `lab` has the partition `vm`.
export NEARMETAL_LAB_VM={{ hardware.nic }}
# The system `guests` has partitions of so many, on one virtual switch and on several.
export NEARMETAL_LAB_GUESTS={{ hardware.guests }} NEARMETAL_LAB_SWITCHES={{ hardware.switches }}
{% endif -%}
{% if partitions | selectattr("name", "equalto", "fleet") | list -%}
# The system `lab` has the partition `fleet`.
export NEARMETAL_LAB_FLEET=yes
{% endif -%}
export PATH=/opt/nearmetal/bin:$PATH
# Python keeps byte code here, and writes none into the checkout, which may belong to another user.
export PYTHONPYCACHEPREFIX=$HOME/.cache/python
. /etc/profile.d/modules.sh
