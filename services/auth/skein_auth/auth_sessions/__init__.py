"""Auth sessions: logins of browsers and grants of applications, with their codes and refresh tokens."""
