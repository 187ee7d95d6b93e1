// Where the page begins: the token out of the address bar first, then everything else.
import { render } from 'preact';
import { app } from './model/app';
import { takeTokenFromAddress } from './net/base';
import { applyTheme } from './ui/theme';
import { Page } from './ui/Page';
import './style/base.css';
import './style/page.css';
import './style/notebook.css';
import './style/panels.css';

takeTokenFromAddress();
applyTheme();
const root = document.getElementById('app');
if (root) render(<Page />, root);
void app.start();
