//! Clocks, tile configuration, trap handler, memory policy.

use protocol::hsakmt::{GpuTileConfig, Status};
use softgpu::Profile;

use super::{PAGE, Program};

#[test]
fn clocks_count_on_every_node() {
    let program = Program::new(Profile::Mi210);
    let engine = &program.engine;
    let (first, second) = (engine.clock_counters(0).unwrap(), engine.clock_counters(0).unwrap());
    assert_eq!({ first.gpu_clock_counter }, 0, "node 0 has no GPU");
    assert_eq!({ first.system_clock_frequency_hz }, 1_000_000_000);
    assert!({ second.system_clock_counter } > { first.system_clock_counter });
    assert!({ second.cpu_clock_counter } > { first.cpu_clock_counter });
    let (first, second) =
        (engine.clock_counters(program.gpu).unwrap(), engine.clock_counters(program.gpu).unwrap());
    assert!({ first.gpu_clock_counter } > 0);
    assert!({ second.gpu_clock_counter } >= { first.gpu_clock_counter });
    for wrong in [2, u32::MAX] {
        assert_eq!(engine.clock_counters(wrong).err(), Some(Status::InvalidNodeUnit), "{wrong}");
    }
}

#[test]
fn the_tile_configuration_goes_into_the_callers_arrays() {
    let program = Program::new(Profile::Mi210);
    let (mut tiles, mut macro_tiles) = ([0xaau32; 40], [0xaau32; 40]);
    let mut config = GpuTileConfig {
        tile_config: tiles.as_mut_ptr().expose_provenance() as u64,
        macro_tile_config: macro_tiles.as_mut_ptr().expose_provenance() as u64,
        num_tile_configs: 40,
        num_macro_tile_configs: 40,
        ..Default::default()
    };
    program.engine.tile_config(program.gpu, &mut config).unwrap();
    assert_eq!({ config.gb_addr_config } & 0xf3e7_77ff, 0x2201_4042);
    assert_eq!(({ config.num_tile_configs }, { config.num_macro_tile_configs }), (32, 16));
    assert_eq!((tiles[32], macro_tiles[16]), (0xaa, 0xaa), "nothing behind what is said");
    assert_ne!(tiles[31], 0xaa);
    config.num_tile_configs = 3;
    config.num_macro_tile_configs = 0;
    program.engine.tile_config(program.gpu, &mut config).unwrap();
    assert_eq!({ config.num_tile_configs }, 3);
}

#[test]
fn a_tile_configuration_that_cannot_be_written_is_an_error() {
    let program = Program::new(Profile::Mi210);
    let mut config = GpuTileConfig { tile_config: 0x1_0000, num_tile_configs: 32, ..Default::default() };
    assert_eq!(program.engine.tile_config(program.gpu, &mut config), Err(Status::Error));
    assert_eq!(program.engine.tile_config(0, &mut config), Err(Status::Error));
    assert_eq!(program.engine.tile_config(2, &mut config), Err(Status::InvalidNodeUnit));
}

#[test]
fn trap_handlers_are_set_on_gpus_only() {
    let program = Program::new(Profile::Mi210);
    let engine = &program.engine;
    assert_eq!(engine.set_trap_handler(program.gpu, 0x10_0000, PAGE, 0x10_1000, PAGE), Ok(()));
    assert_eq!(engine.set_trap_handler(program.gpu, 0, 0, 0, 0), Ok(()));
    assert_eq!(engine.set_trap_handler(0, 0, 0, 0, 0), Err(Status::Error));
    assert_eq!(engine.set_trap_handler(2, 0, 0, 0, 0), Err(Status::InvalidNodeUnit));
}

#[test]
fn the_memory_policy_is_kaveris_only() {
    let program = Program::new(Profile::Mi210);
    let engine = &program.engine;
    assert_eq!(engine.set_memory_policy(0, 0, 0, 0, 0), Err(Status::NotImplemented));
    assert_eq!(engine.set_memory_policy(program.gpu, 0, 0, 0, 0), Err(Status::NotImplemented));
    assert_eq!(engine.set_memory_policy(2, 0, 0, 0, 0), Err(Status::InvalidNodeUnit));
}
