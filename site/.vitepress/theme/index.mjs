// The generator's own look, without its fonts: the reader's are used.
import theme from 'vitepress/theme-without-fonts'
import './look.css'

export default theme
