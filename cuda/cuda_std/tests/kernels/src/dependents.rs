//! Programmatic dependent launch, for compute capability 9.0 and later; before that no instruction.

use cuda_std::grid;

kernels! {
    // From 9.0 on no access moves over the wait.
    //@ sm_75: griddepcontrol == 0
    //@ sm_90: griddepcontrol.wait == 1
    //@ sm_90: ld.global == 2
    //@ sm_90: st.global == 2
    dependent_waits(out: *mut u32, inp: *const u32) {
        *out = *inp;
        grid::wait_for_dependencies();
        *out = *inp + 1;
    }

    //@ sm_75: griddepcontrol == 0
    //@ sm_90: griddepcontrol.launch_dependents == 1
    //@ sm_90: st.global == 2
    dependent_launches(out: *mut u32) {
        *out = 1;
        grid::launch_dependents();
        *out = 2;
    }
}
