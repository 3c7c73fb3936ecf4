//! Workgroups: waves that share LDS and barriers.

use std::sync::atomic::Ordering;

use super::super::op::Arch;
use super::code::{CodeCache, NearPages, same_page};
use super::{Env, Flow, Lds, Memory, Registers, Trap, TrapAt, Wave, perform, report};

/// What a workgroup is made from.
#[derive(Clone, Copy, Debug)]
pub struct GroupConfig {
    /// The architecture.
    pub arch: Arch,
    /// Bytes of LDS.
    pub lds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    AtBarrier,
    Ended,
}

/// How far a group came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Instructions are left.
    Running,
    /// Every wave ended.
    Ended,
}

/// A workgroup.
pub struct Group {
    waves: Vec<(Wave, State)>,
    lds: Lds,
    next: usize,
    near: NearPages,
}

/// Instructions that a wave runs before the next wave of its group does: waves that wait for each other in a loop make
/// progress, and registers stay in the processor's caches for a while.
const SLICE: u32 = 4096;

impl Group {
    /// A group of waves whose registers are set.
    #[must_use]
    pub fn new(config: GroupConfig, waves: Vec<Wave>) -> Self {
        debug_assert!(waves.iter().all(|wave| wave.arch == config.arch));
        let waves = waves.into_iter().map(|wave| (wave, State::Running)).collect();
        Self { waves, lds: Lds::new(config.lds), next: 0, near: NearPages::default() }
    }

    /// Executes about `budget` instructions, and returns how many.
    ///
    /// # Errors
    /// What stopped a wave, and where.
    pub fn run(
        &mut self,
        code: &CodeCache,
        memory: &dyn Memory,
        budget: u32,
    ) -> Result<(Progress, u32), TrapAt> {
        let mut done = 0;
        while done < budget {
            if !self.pick() {
                return Ok((Progress::Ended, done));
            }
            let (wave, state) = &mut self.waves[self.next];
            let mut env = Env { memory, lds: &mut self.lds };
            let (code, budget) = ((code, &mut self.near), SLICE.min(budget - done));
            let (executed, now) = if report::is_wanted() {
                run_wave::<true>(wave, code, &mut env, budget)?
            } else {
                run_wave::<false>(wave, code, &mut env, budget)?
            };
            *state = now;
            done += executed.max(1);
            self.next += 1;
        }
        Ok((Progress::Running, done))
    }

    /// Whether every wave has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.waves.iter().all(|(_, state)| *state == State::Ended)
    }

    /// The registers of its waves, which are then gone.
    pub fn take_registers(&mut self) -> impl Iterator<Item = Registers> {
        std::mem::take(&mut self.waves).into_iter().map(|(wave, _)| wave.into_registers())
    }

    /// Selects a wave that can run; `false` when all have ended. A barrier opens when no wave is running.
    fn pick(&mut self) -> bool {
        for round in 0..2 {
            let count = self.waves.len();
            if let Some(at) =
                (0..count).map(|at| (self.next + at) % count).find(|at| self.waves[*at].1 == State::Running)
            {
                self.next = at;
                return true;
            }
            if round == 0 {
                for (_, state) in self.waves.iter_mut().filter(|(_, state)| *state == State::AtBarrier) {
                    *state = State::Running;
                }
            }
        }
        false
    }
}

fn run_wave<const COUNT: bool>(
    wave: &mut Wave,
    (code, near): (&CodeCache, &mut NearPages),
    env: &mut Env<'_>,
    budget: u32,
) -> Result<(u32, State), TrapAt> {
    let mut done = 0;
    let mut from = wave.pc;
    let mut page = near.page(code, env.memory, from).map_err(|trap| TrapAt { pc: from, trap })?;
    while done < budget {
        let pc = wave.pc;
        let at = |trap: Trap| TrapAt { pc, trap };
        if !same_page(pc, from) {
            page = near.page(code, env.memory, pc).map_err(at)?;
            from = pc;
        }
        let step = page.step(pc).map_err(at)?;
        if COUNT && let Some(counter) = &step.counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let flow = perform(step.body, wave, &step.inst, env).map_err(at)?;
        done += 1;
        wave.clock = wave.clock.wrapping_add(4);
        let next = pc.wrapping_add(u64::from(step.inst.size));
        match flow {
            Flow::Next => wave.pc = next,
            Flow::Jump(to) => wave.pc = to,
            Flow::Barrier => {
                wave.pc = next;
                return Ok((done, State::AtBarrier));
            }
            Flow::Yield => {
                wave.pc = next;
                return Ok((done, State::Running));
            }
            Flow::End => return Ok((done, State::Ended)),
        }
    }
    Ok((done, State::Running))
}
