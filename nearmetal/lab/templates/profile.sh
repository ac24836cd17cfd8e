# The login environment of a lab user: ReFrame, its configuration, and the modules.
export RFM_CONFIG_PATH={{ checkout }}/site-config
# What `ec2:cc` is here.
export NEARMETAL_SYSTEMS_PATH={{ checkout }}/site-config/lab/systems
# Each machine's lab has a baseline of its own.
export RFM_REFERENCE_PREFIX={{ checkout }}/results/baselines
{% if hardware -%}
# The partition `vm` of the system `lab` is there.
export NEARMETAL_LAB_VM={{ hardware.nic }}
{% endif -%}
export PATH=/opt/nearmetal/bin:$PATH
# Python's byte code stays out of the checkout, which belongs to somebody else.
export PYTHONDONTWRITEBYTECODE=1
. /etc/profile.d/modules.sh
