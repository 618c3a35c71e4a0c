/**
 * The forms that read textures and access surfaces by handles. Coordinates stand behind the handle, in its brackets: decoding.ts makes an operand of
 * their own of them.
 */
import { formList } from './form.js'

const { forms, code } = formList()

export const TEXTURE_FORMS = forms

const IMAGES = 'geometry=1d|2d|3d|a1d|a2d|cube|acube'
const TYPES = 'vec=v4.T=u32|s32|f32'
code(`tex.${IMAGES}.${TYPES}.S=s32|f32`, 'd:T a:address x:list', 'texture')
// A texture without mipmaps has one level, which each level of detail is.
code(`tex.!level.${IMAGES}.${TYPES}.S=s32|f32`, 'd:T a:address x:list e:S', 'texture')
code(`tex.!grad.${IMAGES}.${TYPES}.S=f32`, 'd:T a:address x:list e:S f:S', 'texture')
code(`tld4.channel=r|g|b|a.geometry=2d|a2d.${TYPES}.S=f32`, 'd:T a:address x:list', 'texture')
code('txq.query=width|height|depth.b32', 'd:b32 a:address', 'texture')

const SURFACES = 'geometry=1d|2d|3d|a1d|a2d'
const EDGES = 'edge=trap|clamp|zero'
code(`suld.!b.${SURFACES}.?cop=ca|cg|cs|cv.?vec=v2|v4.T=b8|b16|b32|b64.${EDGES}`, 'd:T a:address x:list', 'texture')
code(`sust.!b.${SURFACES}.?cop=wb|cg|cs|wt.?vec=v2|v4.T=b8|b16|b32|b64.${EDGES}`, 'a:address x:list b:T', 'texture')
code(`sust.!p.${SURFACES}.?cop=wb|cg|cs|wt.?vec=v2|v4.T=b32.${EDGES}`, 'a:address x:list b:T', 'texture')
code(`sured.!by=b|p.op=add.${SURFACES}.T=u32|s32|u64.${EDGES}`, 'a:address x:list b:T', 'texture')
code(`sured.!by=b|p.op=min|max.${SURFACES}.T=u32|s32|u64|s64.${EDGES}`, 'a:address x:list b:T', 'texture')
code(`sured.!by=b|p.op=and|or.${SURFACES}.T=b32.${EDGES}`, 'a:address x:list b:T', 'texture')
code('suq.query=width|height|depth.b32', 'd:b32 a:address', 'texture')
