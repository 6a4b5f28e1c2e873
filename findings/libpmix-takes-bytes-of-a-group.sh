#!/bin/bash
# libpmix 4.2.2 of Debian 12 takes the bytes of pmix.grp.endpt out of the answer that a server's host has given to a group's
# construction, and frees them, before it calls the release function (src/server/pmix_server_ops.c, _grpcbfunc). A host that
# frees its own answer there, as the interface has it for every other one, must look whether they still are in it. Seen with
# one member that asks for a context.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >group.c <<'C'
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pmix_info_t answer[1];
static volatile int is_over = 0;

static void given_back(void *mine)
{
    printf("given back with %s bytes in it\n", answer[0].value.data.bo.bytes != NULL ? "its" : "no");
    fflush(stdout);
    is_over = 1;
}

static pmix_status_t on_group(pmix_group_operation_t operation, char *name, const pmix_proc_t procs[], size_t count,
                              const pmix_info_t directives[], size_t directive_count, pmix_info_cbfunc_t done, void *data)
{
    if (operation != PMIX_GROUP_CONSTRUCT) return PMIX_ERR_NOT_SUPPORTED;
    PMIX_LOAD_KEY(answer[0].key, PMIX_GROUP_ENDPT_DATA);
    answer[0].value.type = PMIX_BYTE_OBJECT;
    for (size_t i = 0; i < directive_count; ++i) {
        if (strcmp(directives[i].key, PMIX_GROUP_ENDPT_DATA) != 0) continue;
        const pmix_byte_object_t *told = &directives[i].value.data.bo;
        answer[0].value.data.bo.bytes = malloc(told->size);
        memcpy(answer[0].value.data.bo.bytes, told->bytes, told->size);
        answer[0].value.data.bo.size = told->size;
    }
    printf("members have told %zu bytes\n", answer[0].value.data.bo.size);
    done(PMIX_SUCCESS, answer, 1, data, given_back, NULL);
    return PMIX_SUCCESS;
}

static void done(pmix_status_t status, void *flag) { *(volatile int *)flag = 1; }

static pmix_server_module_t module = {.group = on_group};

int main(int argc, char **argv)
{
    pmix_proc_t self, *members = NULL;
    if (argc > 1) {
        pmix_info_t *results = NULL;
        size_t result_count = 0;
        if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return 2;
        pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 7};
        PMIx_Put(PMIX_GLOBAL, "where", &value);
        PMIx_Commit();
        pmix_info_t wish[1];
        PMIX_INFO_LOAD(&wish[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
        pmix_status_t status = PMIx_Group_construct("group", &self, 1, wish, 1, &results, &result_count);
        printf("PMIx_Group_construct: %s\n", PMIx_Error_string(status));
        fflush(stdout);
        _exit(0);
    }
    volatile int flag = 0;
    if (PMIx_server_init(&module, NULL, 0) != PMIX_SUCCESS) return 3;
    PMIX_LOAD_PROCID(&self, "space", 0);
    PMIx_server_register_nspace("space", 1, NULL, 0, done, (void *)&flag);
    while (!flag) usleep(1000);
    flag = 0;
    PMIx_server_register_client(&self, getuid(), getgid(), NULL, done, (void *)&flag);
    while (!flag) usleep(1000);
    char **environment = NULL;
    PMIx_server_setup_fork(&self, &environment);
    pid_t child = fork();
    if (child == 0) {
        for (char **one = environment; one && *one; ++one) putenv(*one);
        execl(argv[0], argv[0], "member", (char *)NULL);
        _exit(4);
    }
    for (int i = 0; i < 10000 && !is_over; ++i) usleep(1000);
    int status;
    waitpid(child, &status, 0);
    fflush(stdout);
    _exit(is_over ? WEXITSTATUS(status) : 5);
}
C
for package in libpmix2=4.2.2-1+deb12u1 libpmix-dev=4.2.2-1+deb12u1 libmunge2 libhwloc15 libevent-dev libevent-core-2.1-7 \
    libevent-pthreads-2.1-7; do
    apt-get download -qq "$package" 2>/dev/null
done
for package in *.deb; do dpkg -x "$package" root; done
library=$work/root/usr/lib/x86_64-linux-gnu
gcc -w -I"$library/pmix2/include" group.c -o group -L"$library" -lpmix -Wl,-rpath-link,"$library"
seen=$(LD_LIBRARY_PATH=$library timeout 60 ./group)
echo "libpmix 4.2.2: $seen"
grep -q "told [1-9]" <<<"$seen" || { echo "no member has told anything: look at group.c"; exit 1; }
grep -q "given back with no bytes in it" <<<"$seen" || { echo "this has changed"; exit 1; }
