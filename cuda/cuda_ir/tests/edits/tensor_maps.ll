; edit: tensor_maps
define internal void @load(ptr %map, ptr %shared, i32 %x) {
start:
  call void asm sideeffect "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [${0}], [${1}, {${2}, ${3}}], [${4}];", "l,l,r,r,r,~{memory}"(ptr %shared, ptr %map, i32 %x, i32 0, i32 128) #2, !srcloc !7
  call void asm sideeffect "prefetch.tensormap [${0}];", "l,~{memory}"(ptr align 64 %map)
  call void asm sideeffect "tensormap.replace.tile.rank.global.b1024.b32 [${0}], 1;", "l,~{memory}"(ptr %map)
  call void asm sideeffect "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [${1}, {${2}}], [${3}]; mov.b32 ${0}, 1;", "=r,l,r,l,~{memory}"(ptr %map, i32 %x, ptr %shared)
  ret void
}
define internal void @other(ptr %map) {
start:
  call void asm sideeffect "ld.global.b32 %r1, [${0}];", "l,~{memory}"(ptr %map)
  ret void
}

; ---- becomes ----
define internal void @load(ptr %map, ptr %shared, i32 %x) {
start:
  call void asm sideeffect "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [${0}], [${1}, {${2}, ${3}}], [${4}];", "l,l,r,r,r,~{memory}"(ptr %shared, ptr readonly captures(none) %map, i32 %x, i32 0, i32 128) #2, !srcloc !7
  call void asm sideeffect "prefetch.tensormap [${0}];", "l,~{memory}"(ptr readonly captures(none) align 64 %map)
  call void asm sideeffect "tensormap.replace.tile.rank.global.b1024.b32 [${0}], 1;", "l,~{memory}"(ptr %map)
  call void asm sideeffect "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [${1}, {${2}}], [${3}]; mov.b32 ${0}, 1;", "=r,l,r,l,~{memory}"(ptr readonly captures(none) %map, i32 %x, ptr %shared)
  ret void
}
define internal void @other(ptr %map) {
start:
  call void asm sideeffect "ld.global.b32 %r1, [${0}];", "l,~{memory}"(ptr %map)
  ret void
}
