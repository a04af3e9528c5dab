//! Acceptance tests: the real binaries between hosts in network namespaces. `./x test` builds what they need
//! and runs them. Each is named after what must hold; case numbers in comments refer to the field cases that
//! the project is held to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod actions;
mod cases;
mod configuration;
mod control;
mod dumps;
mod fields;
mod flows;
mod footprint;
mod interfaces;
mod jumbo;
mod lifecycle;
mod limits;
mod packaging;
mod queues;
mod refusals;
mod runner;
mod slow_link;
mod trace;
mod traffic;
mod transmit;
mod wire;
mod zero_copy;

use std::process::ExitCode;

use runner::tests;
use serde_json::Value;

fn main() -> ExitCode {
    // A test runs this program again as the door to one without AF_XDP sockets.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, program, arguments @ ..] = words.as_slice()
        && flag == refusals::WITHOUT_XDP
    {
        eprintln!("{program}: {}", xvs_tests::without_xdp::become_program(program, arguments));
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!runner::main(all())))
}

/// All tests.
fn all() -> Vec<runner::Test> {
    let plain = tests![Plain:
        lifecycle::a_port_of_a_slow_link_drains_and_binds_again,
        traffic::ping_tcp_udp_over_ipv4,
        traffic::ping_tcp_udp_over_ipv6,
        traffic::tcp_inside_vxlan,
        traffic::tcp_inside_vxlan_with_an_outer_checksum,
        traffic::tcp_inside_vxlan_over_ipv6,
        traffic::a_tag_beside_the_frame_is_seen_or_told_of,
        traffic::checksums_stay_as_they_are,
        transmit::the_kernels_counters_are_shown_and_rise,
        configuration::a_bad_file_is_refused_at_start,
        configuration::a_bad_file_on_reload_changes_nothing,
        configuration::a_reload_touches_only_what_differs,
        configuration::what_it_shows_it_accepts,
        configuration::threads_move_while_a_port_waits,
        configuration::a_core_that_does_not_exist_changes_nothing,
        configuration::no_packet_passes_before_the_rules,
        configuration::a_reload_that_fails_late_changes_nothing,
        control::ovs_appctl_drives_it,
        control::a_pass_that_takes_long_is_told_of,
        control::a_file_of_flows_is_added_whole_or_not_at_all,
        control::xvsctl_shows_everything_in_text_and_json,
        dumps::showing_200_000_flows_disturbs_no_packet,
        control::garbage_on_the_control_socket,
        control::it_tells_systemd_when_it_is_ready,
        packaging::the_unit_runs_under_systemd,
        refusals::bad_commands_are_explained_and_change_nothing,
        refusals::more_queues_than_the_device_has,
        refusals::a_port_of_another_daemon,
        refusals::zero_copy_where_there_is_none,
        refusals::native_mode_where_there_is_none,
        refusals::a_kernel_without_af_xdp_sockets,
        refusals::too_little_locked_memory_or_a_missing_capability,
        refusals::xvsctl_says_why_it_has_no_answer,
        wire::headers_cut_or_changed_at_every_byte_are_counted_once,
        wire::broken_frames_are_counted_once_each,
        wire::fragments_pass,
        wire::a_daemon_that_leaks_one_frame_is_found_out,
        lifecycle::killed_under_load_it_leaves_nothing_behind,
        lifecycle::killed_on_a_slow_link_the_next_start_binds,
        lifecycle::an_interface_made_again_is_bound_again,
        lifecycle::a_raised_mtu_is_followed,
        interfaces::an_interface_leaves_for_another_namespace_and_returns,
        interfaces::a_renamed_interface_is_kept,
        interfaces::promiscuous_mode_is_set_and_restored,
        interfaces::a_foreign_program_is_named_and_left_alone,
        interfaces::a_port_that_would_cut_somebody_off_is_refused,
        interfaces::a_failing_port_is_tried_again_and_disturbs_nobody,
        footprint::two_ports_take_less_than_100_mib,
    ];
    let queues = tests![Plain:
        queues::values_that_do_not_fit_are_warned_of,
        queues::optional_kernel_features_are_shown,
        queues::two_threads_share_a_single_queue,
        queues::each_thread_sends_on_a_queue_of_its_own,
        queues::four_receive_queues_over_two_threads,
        queues::busy_queues_are_parted_on_request,
        queues::queues_before_the_first_stay_with_the_host,
    ];
    let tests =
        in_machine().into_iter().chain(plain).chain(flow_table()).chain(queues).chain(large());
    tests.chain([cases::TEST]).chain(timing()).collect()
}

/// Flows: what they match and do, and how they are kept and told of.
fn flow_table() -> Vec<runner::Test> {
    tests![Plain:
        actions::every_action_and_field_has_a_row,
        actions::every_action_does_what_it_says,
        actions::every_field_is_rewritten_with_its_checksums,
        actions::rules_measure_cut_and_queue,
        actions::what_cannot_work_is_refused,
        fields::every_member_of_a_match_hits_and_misses,
        fields::rules_see_the_second_tag_once_the_first_is_stripped,
        flows::one_flow_for_a_hundred_thousand_source_ports,
        flows::a_steady_flow_hits_the_table,
        flows::the_signature_cache_is_used_when_enabled,
        limits::rules_in_a_circle_are_bounded_and_told_of_once,
        limits::a_moving_host_is_found_with_its_first_packet,
        trace::a_trace_is_the_flow_that_the_packet_installs,
        trace::a_packet_is_traced_from_text_hex_and_capture,
    ]
    .to_vec()
}

/// Packets larger than a frame.
fn large() -> Vec<runner::Test> {
    tests![Plain:
        jumbo::what_is_left_to_be_cut_is_cut_in_generic_mode,
        jumbo::what_is_left_to_be_cut_in_a_tunnel_is_cut_too,
        jumbo::jumbo_frames_pass_in_every_mode,
        jumbo::an_mtu_of_19_frames_is_refused,
        jumbo::what_is_left_to_be_cut_may_have_more_frames_than_a_packet,
        jumbo::what_exceeds_the_output_mtu_is_counted,
        jumbo::udp_left_to_be_cut_is_counted,
        jumbo::a_lowered_mtu_is_followed,
    ]
    .to_vec()
}

/// Those that measure time.
fn timing() -> Vec<runner::Test> {
    let timing = tests![Timing:
        actions::meters_hold_their_rates,
        limits::two_hundred_thousand_flows_and_one_more,
        limits::a_million_source_addresses,
        limits::rules_are_replaced_under_traffic,
        jumbo::jumbo_frames_share_a_slow_link,
        jumbo::segments_share_a_slow_link,
        transmit::overload_then_silence_then_ping,
        transmit::tcp_goes_on_while_neighbours_are_forgotten,
        slow_link::a_ping_overtakes_an_overload,
        slow_link::a_sparse_flow_is_neither_lost_nor_late,
        slow_link::bulk_flows_share_evenly,
        transmit::a_backlog_leaves_in_few_calls,
        transmit::a_burst_leaves_without_a_further_packet,
        transmit::single_packets_leave_at_once,
        transmit::eagain_is_counted_and_loses_nothing,
        transmit::ebusy_costs_one_packet_each,
        transmit::without_carrier_no_system_call,
        transmit::a_full_tx_ring_drops_only_what_does_not_fit,
        transmit::a_link_that_takes_nothing_costs_few_calls,
        queues::a_shared_queue_under_load_from_two_threads,
        queues::no_thread_sleeps_on_a_socket_on_which_another_sends,
        queues::a_port_that_closes_holds_up_no_other,
        lifecycle::a_port_comes_and_goes_a_hundred_times,
        lifecycle::links_go_down_under_load_and_come_back,
        lifecycle::it_exits_within_a_second_under_load,
        footprint::asleep_it_takes_less_than_two_percent,
    ];
    let long = tests![Long:
        interfaces::two_hundred_reloads_leak_nothing,
        zero_copy::on_emulated_cards_in_full,
    ];
    timing.into_iter().chain(long).collect()
}

/// Tests inside the virtual machine, and the one that starts it.
fn in_machine() -> Vec<runner::Test> {
    let start = tests![Alone: zero_copy::on_emulated_cards];
    let inside = tests![InMachine:
        zero_copy::a_zero_copy_and_a_copy_port_forward_to_each_other,
        zero_copy::two_zero_copy_ports_forward_to_each_other,
        zero_copy::without_zero_copy_it_steps_down_and_says_why,
        zero_copy::frames_that_do_not_fit_are_not_cut,
        zero_copy::a_zero_copy_port_comes_and_goes,
        zero_copy::killed_it_starts_again,
        zero_copy::asleep_it_forwards_within_the_bound,
    ];
    start.into_iter().chain(inside).collect()
}

/// A number at a place in JSON; 0 when there is none.
fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Numbers that look random and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    /// From a seed that is not 0.
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn u16(&mut self) -> u16 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24 & 0xffff) as u16
    }

    /// A number below `limit`, 65,536 at most.
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.u16()) % limit.max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.u16().to_le_bytes()[0]).collect()
    }
}
