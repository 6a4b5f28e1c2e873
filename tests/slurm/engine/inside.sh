#!/bin/bash
# The rig, in namespaces of its own: munged, slurmctld and three slurmd, each with a /tmp of its own in which the file `node` has its
# name. Then the cases.
set -uo pipefail
here=$PWD/tests/slurm/engine
mount --make-rprivate / && mount -t proc proc /proc
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp
export RIG=/run/rig
mkdir -p $RIG/root $RIG/upper $RIG/work
for deb in "$PLACE"/debs/*.deb; do dpkg-deb -x "$deb" $RIG/root || exit 1; done
for folder in usr etc var; do
    mkdir -p $RIG/root/$folder $RIG/upper/$folder $RIG/work/$folder
    mount -t overlay overlay -o "lowerdir=$RIG/root/$folder:/$folder,upperdir=$RIG/upper/$folder,workdir=$RIG/work/$folder" /$folder || exit 1
done
# What Debian's alternatives would do.
for program in /usr/bin/*-wlm /usr/sbin/*-wlm; do [ ! -e "$program" ] || ln -sf "$program" "${program%-wlm}"; done
for folder in /usr/lib/*/slurm-wlm; do [ -e "${folder%-wlm}" ] || ln -s "$folder" "${folder%-wlm}"; done
mkdir -p $RIG/home && chmod 1777 $RIG/home
hostname ctl
ip link set lo up && ip address add 10.9.9.1/24 dev lo
printf '127.0.0.1 localhost\n10.9.9.1 ctl n1 n2 n3\n' >/etc/hosts
for user in munge slurm eva; do useradd --no-create-home --home-dir $RIG/home --shell /bin/bash $user 2>/dev/null; done
mkdir -p /etc/munge /run/munge /var/lib/munge /var/log/munge /etc/slurm /run/slurm /var/log/slurm /var/spool/slurm/ctl
dd if=/dev/urandom of=/etc/munge/munge.key bs=128 count=1 2>/dev/null
chown -R munge: /etc/munge /run/munge /var/lib/munge /var/log/munge && chmod 400 /etc/munge/munge.key && chmod 755 /run/munge
chown -R slurm: /run/slurm /var/log/slurm /var/spool/slurm
cat >/etc/slurm/slurm.conf <<X
ClusterName=rig
SlurmctldHost=ctl(10.9.9.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/spool/slurm/ctl
SlurmdSpoolDir=/var/spool/slurm/%n
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdLogFile=/var/log/slurm/%n.log
SlurmctldLogFile=/var/log/slurm/ctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname=ctl NodeAddr=10.9.9.1 Port=17001 CPUs=2 CoresPerSocket=2 RealMemory=500 State=UNKNOWN
NodeName=n2 NodeHostname=ctl NodeAddr=10.9.9.1 Port=17002 CPUs=2 CoresPerSocket=2 RealMemory=500 State=UNKNOWN
NodeName=n3 NodeHostname=ctl NodeAddr=10.9.9.1 Port=17003 CPUs=2 CoresPerSocket=2 RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=n1,n2,n3 Default=YES MaxTime=01:00:00 DefaultTime=00:05:00 State=UP OverSubscribe=NO
X
runuser -u munge -- /usr/sbin/munged --num-threads=2
/usr/sbin/slurmctld
for node in n1 n2 n3; do
    mkdir -p /var/spool/slurm/$node
    unshare --mount sh -c "mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp && echo $node >/tmp/node && exec /usr/sbin/slurmd -N $node" || exit 1
done
for _ in $(seq 100); do [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 3 ] && break; sleep 0.2; done
[ "$(sinfo -h -t idle -o %D)" = 3 ] || { sinfo; tail -3 /var/log/slurm/*.log; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
exec "$here/cases.sh"
