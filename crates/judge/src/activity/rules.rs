//! The table of rules: which kernel symbols mean which activity, over kernels 5.10 to 6.18, x86-64
//! and aarch64. A symbol that ends in `*` stands for every symbol with that beginning.

use pagewise_model::diagnosis::Activity;

/// Where in a stack a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Carries out what the caller wants: passed over at the leaf end of the stack.
    Helper,
    /// Only at the leaf, after helpers.
    Leaf,
    /// Anywhere; of several the one nearest to the leaf decides.
    Caller,
    /// Anywhere, when nothing else matched.
    LastResort,
}

/// One rule: any of `symbols` at `place` means `activity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it recognises, for people.
    pub name: &'static str,
    /// Where it applies.
    pub place: Place,
    /// What it means (for helpers: nothing, the caller decides).
    pub activity: Activity,
    /// Symbol names of all kernel generations, without suffixes, separated by spaces.
    pub symbols: &'static str,
}

impl Rule {
    /// Whether this rule names `symbol` (suffixes already stripped).
    #[must_use]
    pub fn matches(&self, symbol: &str) -> bool {
        self.symbols.split_ascii_whitespace().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => symbol.starts_with(beginning),
            None => pattern == symbol,
        })
    }
}

const fn rule(name: &'static str, place: Place, activity: Activity, symbols: &'static str) -> Rule {
    Rule { name, place, activity, symbols }
}

use Activity::{Copy, Entry, Fault, File, MapUnmap, Other, Pipe, Reclaim, Spawn, Wakeup, Zeroing};
use Place::{Caller, Helper, LastResort, Leaf};

/// All rules. Order matters only within one place and one frame: the first match wins.
pub static RULES: &[Rule] = &[
    rule(
        "locks",
        Helper,
        Other,
        "_raw_spin_* _raw_read_* _raw_write_* queued_spin_lock_slowpath \
         native_queued_spin_lock_slowpath __pv_queued_spin_lock_slowpath pv_native_safe_halt \
         kvm_wait queued_read_lock_slowpath queued_write_lock_slowpath mutex_lock mutex_unlock \
         mutex_spin_on_owner __mutex_lock __mutex_unlock_slowpath down_read up_read down_write \
         up_write down_read_trylock __rcu_read_lock __cond_resched preempt_count_add \
         __rcu_read_unlock lockref_get lockref_get_not_dead lockref_put_return",
    ),
    rule(
        "memory moves",
        Helper,
        Other,
        "memcpy __memcpy memmove __memmove memset __memset memcpy_orig memset_orig \
         rep_movs_alternative rep_stos_alternative __pi_memcpy __pi_memset memcpy_erms \
         memset_erms",
    ),
    rule(
        "page copies",
        Helper,
        Other,
        "copy_page copy_page_regs copy_mc_to_kernel copy_mc_enhanced_fast_string \
         copy_mc_fragile copy_user_highpage copy_highpage __pi_copy_page",
    ),
    rule(
        "TLB flush steps",
        Helper,
        Other,
        "native_flush_tlb_one_user flush_tlb_one_user native_flush_tlb_* flush_tlb_mm_range \
         flush_tlb_func flush_tlb_func_common flush_tlb_func_local native_flush_tlb_multi \
         smp_call_function_many_cond on_each_cpu_cond_mask native_tlb_flush*",
    ),
    rule(
        "patching and stack set-up",
        Helper,
        Other,
        "__fentry__ __pi___x86_indirect_thunk_* __x86_indirect_thunk_* __x86_return_thunk \
         srso_* retbleed_* its_* clear_bhb_loop write_ibpb entry_ibpb",
    ),
    rule(
        "clearing a page",
        Leaf,
        Zeroing,
        "clear_page clear_page_erms clear_page_rep clear_page_orig clear_pages __pi_clear_page \
         kernel_init_pages clear_highpage clear_pages_erms",
    ),
    rule(
        "exception entry and return",
        Leaf,
        Fault,
        "asm_exc_page_fault exc_page_fault error_entry error_return sync_regs native_iret \
         irqentry_enter irqentry_exit irqentry_exit_to_user_mode irqentry_enter_from_user_mode \
         swapgs_restore_regs_and_return_to_usermode common_interrupt_return \
         restore_regs_and_return_to_kernel async_page_fault el0_da el0_ia",
    ),
    rule(
        "system call entry and return",
        Leaf,
        Entry,
        "entry_SYSCALL_64* do_syscall_64 x64_sys_call syscall_return_via_sysret entry_SYSRETQ* \
         entry_SYSCALL_compat* syscall_enter_from_user_mode* syscall_exit_to_user_mode* \
         syscall_trace_enter exit_to_user_mode_prepare exit_to_user_mode_loop __x64_sys_* \
         ret_from_fork_asm el0_svc* invoke_syscall do_el0_svc __arm64_sys_*",
    ),
    rule(
        "clearing a huge page",
        Caller,
        Zeroing,
        "clear_huge_page folio_zero_user clear_subpage clear_gigantic_page process_huge_page \
         clear_user_highpages clear_user_pages clear_contig_highpages",
    ),
    rule(
        "copies to and from user memory",
        Caller,
        Copy,
        "_copy_to_iter _copy_from_iter _copy_from_iter_nocache _copy_mc_to_iter \
         copy_page_to_iter copy_page_from_iter copy_page_from_iter_atomic copyout copyin \
         copyout_mc copy_user_enhanced_fast_string copy_user_generic_string \
         copy_user_generic_unrolled copy_user_generic copy_user_fast_string \
         iov_iter_copy_from_user_atomic copy_folio_from_iter_atomic __copy_user_nocache \
         __copy_user_flushcache _copy_to_user _copy_from_user raw_copy_to_user \
         raw_copy_from_user __arch_copy_to_user __arch_copy_from_user iov_iter_zero clear_user \
         __clear_user clear_user_erms clear_user_rep_good clear_user_original __arch_clear_user",
    ),
    rule(
        "readying user memory for a copy",
        Caller,
        Copy,
        "fault_in_readable fault_in_iov_iter_readable fault_in_iov_iter_writeable \
         iov_iter_fault_in_readable",
    ),
    rule(
        "reclaim",
        Caller,
        Reclaim,
        "shrink_node shrink_lruvec shrink_folio_list shrink_page_list shrink_inactive_list \
         shrink_active_list try_to_free_pages try_to_free_mem_cgroup_pages shrink_slab \
         do_shrink_slab evict_folios shrink_one balance_pgdat node_reclaim lru_add_drain_all \
         reclaim_high mem_cgroup_handle_over_high __mem_cgroup_handle_over_high \
         try_charge_memcg_slow reclaim_pages reclaim_folio_list damon_pa_pageout",
    ),
    rule(
        "compaction",
        Caller,
        Reclaim,
        "try_to_compact_pages compact_zone compact_zone_order migrate_pages migrate_pages_batch \
         isolate_migratepages_block __alloc_pages_direct_compact migrate_folio \
         migrate_misplaced_folio",
    ),
    rule(
        "swap",
        Caller,
        Reclaim,
        "swap_writepage swap_writeout swap_readpage swap_read_folio swapin_readahead \
         zswap_store zswap_load do_swap_page add_to_swap folio_alloc_swap",
    ),
    rule(
        "wake-ups",
        Caller,
        Wakeup,
        "try_to_wake_up ttwu_do_activate ttwu_queue_wakelist sched_ttwu_pending wake_up_q \
         __wake_up __wake_up_common __wake_up_common_lock __wake_up_sync_key \
         __wake_up_locked_key autoremove_wake_function default_wake_function \
         woken_wake_function wake_up_process wake_up_state pollwake ep_poll_callback complete \
         complete_all swake_up_locked kick_pool wake_up_new_task",
    ),
    rule(
        "context switches",
        Caller,
        Wakeup,
        "schedule __schedule preempt_schedule* schedule_tail finish_task_switch \
         schedule_timeout schedule_hrtimeout_range* switch_mm_irqs_off __switch_to \
         __switch_to_asm prepare_to_wait* finish_wait do_wait_intr* wait_woken",
    ),
    rule(
        "futexes",
        Caller,
        Wakeup,
        "futex_wake futex_wait __futex_wait futex_wait_queue futex_wait_setup do_futex \
         futex_wait_queue_me",
    ),
    rule(
        "reschedule interrupt",
        Caller,
        Wakeup,
        "sysvec_reschedule_ipi asm_sysvec_reschedule_ipi __sysvec_reschedule_ipi scheduler_ipi",
    ),
    rule(
        "TLB flush for another CPU",
        Caller,
        MapUnmap,
        "sysvec_call_function asm_sysvec_call_function sysvec_call_function_single \
         asm_sysvec_call_function_single generic_smp_call_function_single_interrupt",
    ),
    // An interrupt interrupts anything: what lies above it in the stack is not to blame.
    rule(
        "interrupts",
        Caller,
        Other,
        "asm_sysvec_apic_timer_interrupt sysvec_apic_timer_interrupt asm_common_interrupt \
         common_interrupt __irq_exit_rcu irq_exit_rcu asm_sysvec_kvm_posted_intr_ipi \
         handle_softirqs __do_softirq asm_sysvec_irq_work asm_sysvec_hyperv_callback \
         asm_exc_nmi el1h_64_irq el0t_64_irq asm_sysvec_kvm_asyncpf_interrupt",
    ),
    rule(
        "pipes",
        Caller,
        Pipe,
        "anon_pipe_write anon_pipe_read pipe_write pipe_read fifo_pipe_write fifo_pipe_read \
         pipe_poll pipe_release free_pipe_info create_pipe_files pipe_resize_ring do_pipe2 \
         splice_to_pipe splice_from_pipe __splice_from_pipe anon_pipe_buf_release \
         anon_pipe_buf_try_steal iter_to_pipe vmsplice_to_pipe do_vmsplice __do_splice \
         do_splice do_tee put_pipe_info pipe_ioctl pipe_fcntl alloc_pipe_info \
         anon_pipe_get_page anon_pipe_put_page fifo_open",
    ),
    rule(
        "fault handling",
        Caller,
        Fault,
        "handle_mm_fault __handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault \
         handle_pte_fault do_anonymous_page do_fault do_wp_page wp_page_copy do_cow_fault \
         do_fault_around filemap_map_pages next_uptodate_folio next_uptodate_page filemap_fault \
         finish_fault do_huge_pmd_anonymous_page lock_vma_under_rcu find_vma_prev_fault \
         do_set_pte set_pte_range faultin_page fixup_user_fault populate_vma_page_range \
         faultin_page_range __mm_populate do_page_fault do_mem_abort do_translation_fault \
         mm_account_fault lock_mm_and_find_vma do_numa_page exc_general_protection",
    ),
    rule(
        "page pinning",
        Caller,
        Fault,
        "__get_user_pages get_user_pages_fast internal_get_user_pages_fast gup_fast_fallback \
         iov_iter_get_pages iov_iter_get_pages2 __iov_iter_get_pages_alloc pin_user_pages*",
    ),
    rule(
        "exit of an address space",
        Caller,
        MapUnmap,
        "exit_mmap unmap_vmas unmap_page_range zap_pte_range unmap_single_vma free_pgtables \
         tlb_finish_mmu tlb_flush_mmu tlb_batch_pages_flush free_pages_and_swap_cache mmput \
         free_pages_and_swap_cache_nolru __mmdrop free_pgd_range unmap_region exit_mm __mmput \
         mmdrop_async zap_page_range zap_page_range_single vms_clear_ptes zap_present_ptes \
         unlink_file_vma unlink_file_vma_batch_process remove_vma",
    ),
    rule(
        "mapping calls",
        Caller,
        MapUnmap,
        "do_mmap vm_mmap_pgoff mmap_region __mmap_region ksys_mmap_pgoff do_munmap __do_munmap \
         do_vmi_munmap do_vmi_align_munmap __vm_munmap vm_munmap do_brk_flags vm_brk_flags \
         __do_sys_brk __x64_sys_brk __se_sys_brk __do_sys_mremap do_mremap mremap_to \
         move_page_tables do_mprotect_pkey mprotect_fixup change_protection split_vma \
         __split_vma vma_merge do_madvise madvise_vma_behavior madvise_collapse __do_sys_munmap \
         __x64_sys_munmap __x64_sys_mremap mm_unmap* userfaultfd_unmap_complete perf_event_mmap \
         get_unmapped_area __get_unmapped_area may_expand_vm vma_modify*",
    ),
    rule(
        "starting a program",
        Caller,
        Spawn,
        "bprm_execve do_execveat_common exec_binprm load_elf_binary begin_new_exec copy_strings \
         copy_string_kernel copy_strings_kernel setup_arg_pages search_binary_handler \
         load_script alloc_bprm bprm_mm_init elf_load elf_map load_elf_interp __do_execve_file \
         do_execve flush_old_exec get_arg_page exec_mmap do_open_execat create_elf_tables \
         __x64_sys_execve shift_arg_pages relocate_vma_down",
    ),
    rule(
        "making a process",
        Caller,
        Spawn,
        "kernel_clone _do_fork copy_process dup_mm dup_mmap copy_page_range copy_thread \
         dup_task_struct copy_pte_range copy_files dup_fd ret_from_fork anon_vma_fork \
         anon_vma_clone __do_sys_vfork",
    ),
    rule(
        "ending a process",
        Caller,
        Spawn,
        "do_exit do_group_exit release_task wait_consider_task do_wait __do_wait \
         wait_task_zombie exit_notify put_task_struct __put_task_struct delayed_put_task_struct \
         free_task kernel_wait4 exit_files put_files_struct cgroup_exit",
    ),
    rule(
        "page cache",
        Caller,
        File,
        "filemap_read generic_file_buffered_read generic_file_read_iter generic_file_write_iter \
         filemap_get_pages filemap_get_read_batch filemap_get_entry find_get_entry \
         pagecache_get_page __filemap_get_folio generic_perform_write filemap_add_folio \
         add_to_page_cache_lru page_cache_ra_unbounded page_cache_ra_order page_cache_sync_ra \
         page_cache_async_ra ondemand_readahead force_page_cache_ra truncate_inode_pages* \
         invalidate_mapping_pages mark_page_accessed folio_mark_accessed filemap_splice_read \
         generic_file_splice_read splice_direct_to_actor do_sendfile balance_dirty_pages* \
         generic_fadvise filemap_read_folio read_pages filemap_update_page \
         splice_folio_into_pipe filemap_write_and_wait_range do_writepages \
         delete_from_page_cache_batch",
    ),
    rule(
        "file systems",
        Caller,
        File,
        "ext4_* __ext4_* xfs_* btrfs_* iomap_* shmem_* jbd2_* overlayfs_* ovl_* erofs_* f2fs_* \
         nfs_* fuse_* tmpfs_* block_write_* __block_* kernfs_* proc_* seq_read* submit_bio* \
         blk_* io_schedule mpage_* simple_* squashfs_* virtiofs_* zfs_* read_zero \
         read_iter_zero write_null write_iter_null tty_* file_tty_write n_tty_*",
    ),
    rule(
        "names and directories",
        Caller,
        File,
        "path_getxattr* filename_getxattr do_getxattr vfs_getxattr vfs_listxattr \
         __x64_sys_statx __x64_sys_fcntl __x64_sys_newfstatat __x64_sys_getdents64 path_openat \
         do_filp_open do_sys_openat2 path_lookupat filename_lookup link_path_walk \
         walk_component lookup_fast __lookup_slow d_lookup __d_lookup __d_lookup_rcu dput \
         iterate_dir vfs_statx vfs_fstat vfs_fstatat vfs_getattr* getname* do_faccessat \
         strncpy_from_user cp_new_stat user_path_at* do_readlinkat do_dentry_open vfs_open \
         __fput ____fput fput filp_close __x64_sys_close terminate_walk do_unlinkat \
         do_renameat2 alloc_empty_file putname step_into complete_walk filp_flush evict iput \
         d_path prepend_path shrink_dcache* notify_change do_truncate __do_sys_newfstatat \
         __do_sys_newfstat do_fcntl vfs_fsync_range do_statx",
    ),
    rule(
        "calls into the file layer",
        LastResort,
        Entry,
        "vfs_read vfs_write ksys_read ksys_write ksys_pread64 ksys_pwrite64 vfs_readv \
         vfs_writev do_readv do_writev new_sync_read new_sync_write vfs_iter_read ksys_lseek \
         fdget fdget_pos __fdget_pos __fget_light rw_verify_area security_file_permission \
         apparmor_file_permission fsnotify __fsnotify_parent __fget_files do_iter_readv_writev",
    ),
    rule(
        "signals and exit work",
        LastResort,
        Entry,
        "task_work_run do_signal arch_do_signal_or_restart get_signal handle_signal \
         __do_sys_rt_sigreturn setup_rt_frame x64_setup_rt_frame do_sigaction sigprocmask \
         do_send_specific restore_fpregs_from_user fpregs_restore_userregs switch_fpu_return \
         fpregs_mark_activate __rseq_handle_notify_resume rseq_* restore_sigcontext \
         exit_to_user_mode_loop syscall_exit_to_user_mode copy_fpstate_to_sigframe \
         _sys_rt_sigreturn",
    ),
    rule(
        "polling",
        LastResort,
        Entry,
        "do_sys_poll do_select core_sys_select ep_poll do_epoll_wait do_epoll_ctl \
         hrtimer_nanosleep do_nanosleep",
    ),
    rule(
        "TLB flush",
        LastResort,
        MapUnmap,
        "flush_tlb_mm_range native_flush_tlb_one_user flush_tlb_one_user flush_tlb_func \
         native_flush_tlb_multi __flush_tlb_range",
    ),
];
