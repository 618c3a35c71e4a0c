/** The forms by which blocks of a cluster know each other: addresses in the shared memory of another block, and the ranks of blocks. */
import { formList } from './form.js'

const { forms, code } = formList()

export const CLUSTER_FORMS = forms

code('mapa.?space=shared::cluster.T=u32|u64', 'd:T a:T b:u32', 'mapa')
code('getctarank.?space=shared::cluster.T=u32|u64', 'd:u32 a:T', 'getctarank')
