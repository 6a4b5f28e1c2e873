#!/bin/bash
# A service manager of one unit, for tests in a root without one: does what the unit of tuttid says.
unit=/usr/lib/systemd/system/tuttid.service
kept=/run/manager.pid
words=() signal=
for word do
    case $word in
    --signal=*) signal=${word#--signal=} ;;
    -*) ;;
    *) words+=("$word") ;;
    esac
done
# The page is not enabled here.
case " ${words[*]} " in *" tutti-sight.service "*) exit 3 ;; esac
value_of() { sed -n "s/^$1=//p" "$unit"; }
# A dead process has no program.
is_active() { pid=$(cat $kept 2>/dev/null) && [ -n "$pid" ] && readlink "/proc/$pid/exe" >/dev/null; }
start() {
    ! is_active || return 0
    mkdir -p "/run/$(value_of RuntimeDirectory)" "/var/lib/$(value_of StateDirectory)"
    # shellcheck disable=SC2046
    setsid $(value_of ExecStart) </dev/null >>/var/log/tuttid.log 2>&1 &
    echo $! >$kept
}
stop() {
    is_active || return 0
    kill -s "$(value_of KillSignal | sed s/^SIG//)" "$pid"
    while is_active; do sleep 0.02; done
}
echo "${words[*]}" >>/run/manager.log
case ${words[0]} in
start) start ;;
stop) stop ;;
restart) stop && start ;;
kill) ! is_active || kill -s "$signal" "$pid" ;;
is-active) is_active ;;
is-enabled) [ ! -e /etc/systemd/system/multi-user.target.wants/tuttid.service ] || echo enabled ;;
preset) mkdir -p /etc/systemd/system/multi-user.target.wants && ln -sf "$unit" /etc/systemd/system/multi-user.target.wants/ ;;
show | daemon-reload) ;;
*) echo "systemctl ${words[*]}: not known here" >&2; exit 1 ;;
esac
